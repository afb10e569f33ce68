#pragma once
// Measures the time of work in a stream, to compare algorithms.

#include <functional>

namespace estrain::kernels::pinned {

// The average seconds of a run in the faster of two series of a few milliseconds; `run` queues one run in `stream` (a
// cudaStream_t). All runs of a series are queued before the first begins, so this measures the device, not the host.
// The first run, which may load code, is not counted. Work that takes much longer than `fastest` runs only twice. Waits
// for the stream. Throws Failure, and what `run` throws.
double seconds_of_run(const std::function<void()>& run, double fastest, void* stream);

}  // namespace estrain::kernels::pinned

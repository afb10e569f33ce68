#pragma once
// Measures the time of work in a stream, to compare algorithms.

#include <functional>

namespace estrain::kernels::pinned {

// Returns the average seconds of a run in the faster of two series of a few milliseconds; `run` queues one run in
// `stream` (a cudaStream_t). All runs of a series are queued before the first run begins, so the time is the device's,
// not the host's. The first run, which may load code, is not counted. Work that takes much longer than `fastest` runs
// only twice. Waits for the stream. Throws Failure, and the errors of `run`.
double seconds_of_run(const std::function<void()>& run, double fastest, void* stream);

}  // namespace estrain::kernels::pinned

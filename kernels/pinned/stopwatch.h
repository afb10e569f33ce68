#pragma once
// How long work in a stream takes, to compare algorithms.

#include <functional>

namespace estrain::kernels::pinned {

// Seconds of one run on average, of the faster of two series of a few milliseconds; `run` puts one run into `stream` (a
// cudaStream_t). The runs of a series are queued before the first of them begins: what is measured is the device, not
// the host. The first run, which may load code, is not counted. What takes much longer than `fastest` is run twice and
// no more. Waits for the stream. Throws Failure, and what `run` throws.
double seconds_of_run(const std::function<void()>& run, double fastest, void* stream);

}  // namespace estrain::kernels::pinned

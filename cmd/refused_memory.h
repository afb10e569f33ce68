#pragma once
// Notices when the system refuses memory to this process.
//
// Some libraries hide a refusal: without a buffer, MKL multiplies matrices in another way, with other bits as the
// result. So malloc and the related functions are wrapped for the whole process, libraries included. A wrapper calls
// the next definition, such as an allocator in LD_PRELOAD. A worker gives up a step with refused memory
// (core/engine/train/worker.h).
//
// A wrapper costs one comparison per allocation. A build with sanitizers keeps the sanitizer's own malloc, and notices
// no refusal.

#include <atomic>
#include <cstdint>

namespace estrain::cmd {

// From now on, prints the first refusal to stderr ("malloc: Cannot allocate memory: …"): the log names the cause even
// if the process crashes after the refusal. Returns the number of refusals to this process since its start.
const std::atomic<uint64_t>& watch_refused_memory();

}  // namespace estrain::cmd

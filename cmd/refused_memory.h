#pragma once
// Notices when the system refuses this process memory.
//
// Some libraries hide a refusal: MKL multiplies matrices in another way where it gets no buffer, and the result has
// other bits. So malloc and its kin are wrapped here for the whole process, libraries included. What is behind a
// wrapper is the next definition, as that of an allocator in LD_PRELOAD. A worker gives up the step in which memory was
// refused (core/engine/train/worker.h).
//
// A wrapper costs one comparison per allocation. A build with sanitizers keeps the sanitizer's own malloc: there
// nothing is noticed.

#include <atomic>
#include <cstdint>

namespace estrain::cmd {

// From now on the first refusal is said on stderr ("malloc: Cannot allocate memory: …"), so that the log names the
// cause even if the process crashes by it. Returns how often memory has been refused to this process since it started.
const std::atomic<uint64_t>& watch_refused_memory();

}  // namespace estrain::cmd

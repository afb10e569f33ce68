#pragma once
// Sleeps on a 32-bit word of shared memory until another process changes the word.

#include <atomic>
#include <chrono>
#include <cstdint>

namespace estrain::comm {

// A sleeping worker checks this often whether the stage was aborted.
inline constexpr std::chrono::milliseconds glance{100};

// Sleeps while `word` holds `expected`, for at most `limit`. May return early without reason.
void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, std::chrono::milliseconds limit);
void futex_wake_all(std::atomic<uint32_t>& word);

}  // namespace estrain::comm

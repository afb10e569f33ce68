#include "core/state/comm/meetings/barrier.h"

#include <immintrin.h>

namespace estrain::comm {

bool Barrier::wait(uint32_t generation) {
  for (int spin = 0; spin < spins_; ++spin) {
    if (words_.generation.load(std::memory_order_acquire) != generation) return true;
    _mm_pause();
  }
  while (words_.generation.load(std::memory_order_acquire) == generation) {
    if (abort_.load() != 0) return false;
    futex_wait(words_.generation, generation, glance_ms);
  }
  return true;
}

}  // namespace estrain::comm

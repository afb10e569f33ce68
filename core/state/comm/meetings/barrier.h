#pragma once
// A meeting of all workers of a stage in shared memory. The last worker to arrive runs the common work once, then
// releases the other workers. A lost worker keeps no worker waiting: when the launcher sets `abort`, everyone leaves.

#include <atomic>
#include <cstdint>
#include <utility>

#include "core/state/comm/memory/futex.h"
#include "core/state/comm/memory/memory_header.h"

namespace estrain::comm {

class Barrier {
 public:
  // `spins`: how often to look before sleeping; 0 with more workers than cores.
  Barrier(BarrierWords& words, const std::atomic<uint32_t>& abort, uint32_t parties, int spins)
      : words_(words), abort_(abort), parties_(parties), spins_(spins) {}

  // Returns false if the stage was aborted; `once` runs in the last process to arrive, before anyone is released, and
  // returns false to abort.
  template <typename Once>
  bool meet(Once&& once) {
    const uint32_t generation = words_.generation.load();
    if (words_.arrived.fetch_add(1) + 1 < parties_) return wait(generation);
    const bool carry_on = std::forward<Once>(once)();
    words_.arrived.store(0);
    words_.generation.store(generation + 1);
    if (parties_ > 1) futex_wake_all(words_.generation);
    return carry_on;
  }
  bool meet() {
    return meet([] { return true; });
  }

 private:
  bool wait(uint32_t generation);

  BarrierWords& words_;
  const std::atomic<uint32_t>& abort_;
  const uint32_t parties_;
  const int spins_;
};

}  // namespace estrain::comm

#pragma once
// A meeting of all workers of a stage in shared memory. The last worker to arrive runs the common work once, then
// releases the other workers. A lost worker keeps no worker waiting: when the launcher sets `abort`, everyone leaves.

#include <array>
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

// The id by which workers on GPUs meet. A worker sets the id at the beginning of a stage.
using ExchangeId = std::array<std::byte, 128>;

// The places where the workers of a stage meet, find each other, and share a step's work.
//
// 1. Opening a stage clears the counts of arrivals; a meeting's generation counts on for the life of the job.
// 2. A worker claims one piece of work at a time. The committing worker clears the counters, while all other workers
//    wait at the step's meeting.
// 3. The workers of the next stage may find each other before that stage opens. The launcher asks for their exchange by
//    a ticket, from 1, never used before in the job; 0: no exchange is wanted any more. A worker with another ticket
//    than the asked one gives up. Opening a stage asks for none.
// All accesses are sequentially consistent.
class MeetingPlaces {
 public:
  explicit MeetingPlaces(MemoryHeader& words) : words_(words) {}

  BarrierWords& gathered() { return words_.gathered; }  // all partial sums of the step are written
  BarrierWords& summed() { return words_.summed; }      // with clipping: all gradients are summed, their norms known
  BarrierWords& multiplied() { return words_.multiplied; }       // the sums of gradients sent as factors are complete
  BarrierWords& finished() { return words_.finished; }           // all pieces are updated
  BarrierWords& evaluated() { return words_.evaluated_by_all; }  // all batches of an evaluation are done
  BarrierWords& saved() { return words_.saved; }                 // the state of GPUs is in shared memory
  BarrierWords& audited() { return words_.audited; }             // an audit's digests are noted

  // Returns the next unclaimed piece.
  uint32_t claim_sum() { return words_.next_sum.fetch_add(1); }
  uint32_t claim_update() { return words_.next_update.fetch_add(1); }
  uint32_t claim_factor() { return words_.next_factor.fetch_add(1); }
  void clear_claims();

  void set_exchange_id(const ExchangeId& id);
  // Sleeps until the id is set. False on abort.
  bool wait_exchange_id(ExchangeId* id);
  // Over several hosts a worker of each host offers an id, and the courier puts the first host's in its place
  // (HostAsk::exchange). The offered id does not count as set.
  void offer_exchange_id(const ExchangeId& id) { words_.exchange_id = id; }
  const ExchangeId& offered_exchange_id() const { return words_.exchange_id; }

  void ask_exchange(int64_t ticket);
  int64_t exchange_asked() const { return words_.exchange_asked.load(); }
  void set_next_exchange_id(int64_t ticket, const ExchangeId& id);
  // Sleeps until the id of this ticket is set. False on abort, and when the ticket is not the asked one.
  bool wait_next_exchange_id(int64_t ticket, ExchangeId* id);

 private:
  friend class StageControl;
  void open();
  void wake_all();
  std::array<BarrierWords*, 7> all();

  MemoryHeader& words_;
};

}  // namespace estrain::comm

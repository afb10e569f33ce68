#pragma once
// The places where the workers of a stage meet (barrier.h), find each other, and share a step's work.
//
// 1. Opening a stage clears the counts of arrivals; a meeting's generation counts on for the life of the job.
// 2. A worker claims one piece of work at a time. The committing worker clears the counters, while all other workers
//    wait at the step's meeting.
// All accesses are sequentially consistent.

#include <array>

#include "core/state/comm/memory/memory_header.h"

namespace estrain::comm {

// The id by which workers on GPUs meet. A worker sets the id at the beginning of a stage.
using ExchangeId = std::array<std::byte, 128>;

class MeetingPlaces {
 public:
  explicit MeetingPlaces(MemoryHeader& words) : words_(words) {}

  BarrierWords& gathered() { return words_.gathered; }  // all partial sums of the step are written
  BarrierWords& summed() { return words_.summed; }      // with clipping: all gradients are summed, their norms known
  BarrierWords& finished() { return words_.finished; }  // all pieces are updated
  BarrierWords& evaluated() { return words_.evaluated_by_all; }  // all batches of an evaluation are done
  BarrierWords& saved() { return words_.saved; }                 // the state of GPUs is in shared memory
  BarrierWords& audited() { return words_.audited; }             // an audit's digests are noted

  // Returns the next unclaimed piece.
  uint32_t claim_sum() { return words_.next_sum.fetch_add(1); }
  uint32_t claim_update() { return words_.next_update.fetch_add(1); }
  void clear_claims();

  void set_exchange_id(const ExchangeId& id);
  // Sleeps until the id is set. False on abort.
  bool wait_exchange_id(ExchangeId* id);

 private:
  friend class StageControl;
  void open();
  void wake_all();
  std::array<BarrierWords*, 6> all();

  MemoryHeader& words_;
};

}  // namespace estrain::comm

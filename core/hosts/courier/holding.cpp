#include "core/hosts/courier/holding.h"

#include <algorithm>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/hosts/succession/succession.h"
#include "core/state/comm/records/step_record.h"

namespace estrain::hosts {

void KeptRecords::note(int64_t step) { written_ = std::max(written_, step); }

void KeptRecords::let_go(comm::JobMemory& memory) const {
  comm::RecordRing ring = memory.ring();
  uint32_t next = ring.drained();
  while (next != ring.published() && ring.at(next).head->step.value < written_) ++next;
  if (next != ring.drained()) ring.drain_to(next);
}

int64_t first_record(comm::JobMemory& memory) {
  comm::RecordRing ring = memory.ring();
  if (ring.waiting() == 0) return memory.commit().committed().value + 1;
  const comm::RecordHead& first = *ring.at(ring.drained()).head;
  return first.kind == comm::RecordKind::step ? first.step.value : first.step.value + 1;
}

int64_t step_of_files(comm::JobMemory& memory, int64_t began_at) {
  comm::RecordRing ring = memory.ring();
  const uint32_t drained = ring.drained();
  if (drained != ring.published()) return ring.at(drained).head->step.value - 1;
  return drained == 0 ? began_at : ring.at(drained - 1).head->step.value;
}

comm::JobMemory& Holding::memory() {
  if (!memory_) memory_ = std::make_unique<comm::JobMemory>(descriptor_);
  if (!memory_->is_ready()) throw Error(Fault::peer, "the job's memory on this host does not stand yet");
  memory_->wait_ready(0ms);  // maps the whole memory
  return *memory_;
}

bool Holding::has_state_of(int64_t step) { return last_stage_ && memory().commit().committed() == Step(step); }

bool Holding::is_fit(bool receives_state) {
  if (!last_stage_) return false;
  return hosts::is_fit({.opened_a_stage = true,
                        .receives_state = receives_state,
                        .records_from = records_from(),
                        .recorded = records_.written()});
}

}  // namespace estrain::hosts

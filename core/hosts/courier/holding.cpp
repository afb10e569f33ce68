#include "core/hosts/courier/holding.h"

#include "core/base/error.h"
#include "core/hosts/succession/succession.h"

namespace estrain::hosts {

comm::JobMemory& Holding::memory() {
  if (!memory_) memory_ = std::make_unique<comm::JobMemory>(descriptor_);
  if (!memory_->is_ready()) throw Error(Fault::peer, "the job's memory on this host does not stand yet");
  memory_->wait_ready(0);  // maps the whole memory
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

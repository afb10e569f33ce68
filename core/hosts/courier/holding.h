#pragma once
// A host's part of the run: the shared memory, the last opened stage, and the records that may be missing in the run's
// files.

#include <cstdint>
#include <memory>
#include <optional>

#include "core/hosts/courier/kept_records.h"
#include "core/hosts/exchange/host_plan.h"
#include "core/state/comm/job_memory.h"

namespace estrain::hosts {

class Holding {
 public:
  explicit Holding(int memory) : descriptor_(memory) {}

  // Throws Fault::peer if the memory is not laid out yet.
  comm::JobMemory& memory();
  bool was_used() const { return memory_ != nullptr; }
  // A stage is open: from now on the memory holds a state of this run's, not of a builder's.
  void note_opened(const HostPlan& plan) { last_stage_ = plan; }
  const std::optional<HostPlan>& last_stage() const { return last_stage_; }
  bool has_state_of(int64_t step);
  // Returns the first step whose record the memory holds.
  int64_t records_from() { return first_record(memory()); }
  // Returns true if the run can resume from this host: the state is complete, the run's files have all earlier records.
  bool is_fit(bool receives_state);
  KeptRecords& records() { return records_; }
  void let_go() { memory_.reset(); }

 private:
  const int descriptor_;
  std::unique_ptr<comm::JobMemory> memory_;
  std::optional<HostPlan> last_stage_;
  KeptRecords records_;
};

}  // namespace estrain::hosts

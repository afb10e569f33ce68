#pragma once
// A host's part of the run: the shared memory, the last opened stage, and the records that may be missing in the run's
// files.

#include <cstdint>
#include <memory>
#include <optional>

#include "core/hosts/exchange/host_plan.h"
#include "core/state/comm/job_memory.h"

namespace estrain::hosts {

// The records of steps kept in a host's memory, so that the host can take over as coordinator: the run's files may lack
// these records. The coordinator tells the other hosts up to which step the files have all records (Kind::beat).
class KeptRecords {
 public:
  // The step up to which the run's files have all records; -1: not known.
  int64_t written() const { return written_; }
  void note(int64_t step);
  // Drops the records that the run's files have: no scribe reads this host's records. Keeps the last record, since
  // records after a step may be written together with the step's record.
  void let_go(comm::JobMemory& memory) const;

 private:
  int64_t written_ = -1;
};

// Returns the first step whose record the memory holds.
int64_t first_record(comm::JobMemory& memory);
// For the coordinator: returns the step up to which its scribe has written the run's files. `began_at`: the step at
// which the stage began.
int64_t step_of_files(comm::JobMemory& memory, int64_t began_at);

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

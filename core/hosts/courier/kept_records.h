#pragma once
// The records of steps kept in a host's memory, so that the host can take over as coordinator: the run's files may lack
// these records. The coordinator tells the other hosts up to which step the files have all records (Kind::beat).

#include <cstdint>

#include "core/state/comm/job_memory.h"

namespace estrain::hosts {

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

}  // namespace estrain::hosts

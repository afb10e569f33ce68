#pragma once
// The records of steps that a host keeps in its memory because the run's files may lack them, so that it can go on as
// coordinator. The coordinator tells the others up to which step the files have all (Kind::beat).

#include <cstdint>

#include "core/state/comm/job_memory.h"

namespace estrain::hosts {

class KeptRecords {
 public:
  // The step up to which the run's files have all records; -1: not known.
  int64_t written() const { return written_; }
  void note(int64_t step);
  // No scribe reads this host's records: those that the run's files have are dropped. The last one is kept, since
  // records that follow a step may be written with it.
  void let_go(comm::JobMemory& memory) const;

 private:
  int64_t written_ = -1;
};

// The step from which on the memory holds the records.
int64_t first_record(comm::JobMemory& memory);
// The coordinator's: the step up to which its scribe has written the run's files. `began_at`: the step that the stage
// went on from.
int64_t step_of_files(comm::JobMemory& memory, int64_t began_at);

}  // namespace estrain::hosts

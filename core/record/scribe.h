#pragma once
// The scribe: the one process of a run that writes its records and checkpoints, so that workers only compute.
//
// It drains step records from the ring in shared memory into metrics.jsonl and fingerprints, and writes checkpoints of
// the committed copy in a thread of its own: it copies the held state out (training goes on meanwhile), lets go, then
// writes. It knows the state by its layout alone and links no LibTorch. It is not killed with the launcher: when the
// launcher is gone it saves the committed state and ends, holding the run directory's lock until then. On a full disk
// it waits: while training goes on, for records; without a launcher, for records and state, as long as the run
// directory is there; then the name of its process (/proc/PID/comm) is kWaitingScribe. Told to finish, it waits only
// for records that a checkpoint is ahead of, which a resume would not repeat.
//
// What it and the launcher say to each other: scribe_messages.h. It says in shared memory that it lives
// (comm/work_clock.h), also while there is no state yet. If it dies the launcher
// starts another one: records that were not marked as drained are still in the ring, a hold that was not released
// still stands.

#include <string>

#include "core/record/scribe_messages.h"
#include "core/spec/job_spec.h"

namespace estrain::record {

constexpr char kWaitingScribe[] = "waits for room";  // at most 15 bytes

struct ScribeSetup {
  std::string run;
  spec::JobSpec spec;
  int memory = -1;
  int doorbell = -1;
  ScribesOwnChannel launcher;
  int64_t from_step = 0;  // what was recorded after it is dropped
};

// Runs until told to finish or the launcher is gone. Throws Error.
void run_scribe(ScribeSetup& setup);

}  // namespace estrain::record

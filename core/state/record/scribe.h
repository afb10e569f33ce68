#pragma once
// The scribe: the process that writes a run's records and checkpoints, so that workers only compute.
//
// It drains step records from the ring buffer in shared memory into metrics.jsonl and fingerprints. A separate thread
// writes checkpoints of the committed copy: it copies the held state while training continues, releases the hold, then
// writes. The scribe knows the state only by its layout and does not link LibTorch. It is not killed with the launcher:
// if the launcher is gone, it saves the committed state and exits, and holds the run directory's lock until then. On a
// full disk it waits for space: during training, to write records; without a launcher, to write records and state, as
// long as the run directory exists, with the process name (/proc/PID/comm) kWaitingScribe. When told to finish, it
// waits only for the records of steps before a checkpoint, which a resume would not repeat.
//
// Its messages to and from the launcher: scribe_messages.h. It says in shared memory that it lives
// (state/comm/memory/work_clock.h), also while there is no state yet. If it dies the launcher
// starts another one: records that were not marked as drained are still in the ring, a hold that was not released
// still stands.

#include <optional>
#include <string>

#include "core/base/ids.h"
#include "core/job/spec/job_spec.h"
#include "core/state/record/scribe_messages.h"

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

// Runs until told to finish or the launcher is gone: then it returns the step whose state it saved. Throws Error.
std::optional<Step> run_scribe(ScribeSetup& setup);

}  // namespace estrain::record

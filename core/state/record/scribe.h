#pragma once
// The scribe: the process that writes a run's records and checkpoints, so that workers only compute.
//
// The scribe drains step records from the ring buffer in shared memory into metrics.jsonl and fingerprints. A separate
// thread writes checkpoints of the committed copy: it copies the held state while training continues, releases the
// hold, then writes. The scribe knows the state only by its layout and does not link LibTorch. The scribe is not
// killed with the launcher: after the launcher's end it saves the committed state and exits, and holds the run
// directory's lock until then. If the lock file was deleted, the lock of the new file is the launcher's alone: the
// scribe takes the lock at the launcher's end, and saves nothing if another launcher was faster. On a full disk it
// waits for space: during training, to write records; without a launcher, to write records and state, as long as the
// run directory exists, with the process name (/proc/PID/comm) kWaitingScribe. After an order to finish, it waits only
// for the records of steps before a checkpoint, which a resume would not repeat.
//
// Messages to and from the launcher: scribe_messages.h. The scribe shows signs of life in shared memory
// (state/comm/memory/pulse.h), even before the state exists. If the scribe ends unexpectedly, the launcher starts
// a new one: undrained records are still in the ring, an unreleased hold stays in force.

#include <optional>
#include <string>

#include "core/base/files/unique_fd.h"
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
  UniqueFd lock;          // of the run directory, with the launcher
  int64_t from_step = 0;  // later records are dropped
};

// Runs until an order to finish or the launcher's end, and then returns the step of the saved state. Throws Error.
std::optional<Step> run_scribe(ScribeSetup& setup);

}  // namespace estrain::record

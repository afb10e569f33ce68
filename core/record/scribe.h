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
//   launcher -> scribe  {"do": "checkpoint", "step": t} | {"do": "finish"}
//   scribe -> launcher  {"say": "saved", "step": t, "seconds": s, "bytes": n}
//                       | {"say": "save_failed", "step": t, "error": …}
//                       | {"say": "evaluated", "step": t, "loss": l, "accuracy": a}
//                       | {"say": "skipped", "step": t, "why": …, "rank": r, "tensor": …}    no update; rank and tensor
//                                                                                            where one is to blame
//                       | {"say": "write_failed", "error": …}
//
// It gives signs of life in shared memory (scribe_beat_ns), even before there is any state. If it dies, the launcher
// starts another one: the ring still has all records that are not marked as drained, and an unreleased hold stays in
// force.

#include <string>

#include "core/comm/message_socket.h"
#include "core/spec/job_spec.h"

namespace estrain::record {

constexpr char kWaitingScribe[] = "waits for room";  // at most 15 bytes

struct ScribeSetup {
  std::string run;
  spec::JobSpec spec;
  int memory = -1;
  int doorbell = -1;
  comm::MessageSocket launcher;
  int64_t from_step = 0;  // later records are dropped
};

// Runs until told to finish or the launcher is gone. Throws Error.
void run_scribe(ScribeSetup& setup);

}  // namespace estrain::record

#pragma once
// Finds the cause when a worker or the scribe is lost. core/run/decisions decides whether and how to continue.

#include <map>
#include <string>

#include "core/job/resources/memory_evidence.h"
#include "core/run/decisions/event.h"
#include "core/run/faults/diagnosis.h"
#include "core/run/launch/launcher/parts/audits.h"
#include "core/run/launch/launcher/parts/run_view.h"

namespace estrain::launch {

// The report about a lost worker. Kept for every loss, and used if the run ends because of the loss.
struct LossRecord {        // NOLINT(bugprone-exception-escape): moving a Json throws nothing
  Json details;            // the fields of the event "fault" in events.jsonl, and "fault" and "error"
  std::string last_words;  // the last 16 KiB of the worker's log
};

class Losses {
 public:
  // The judges of a loss.
  struct Judges {
    faults::FaultTable faults;
    Audits& audits;
  };
  Losses(const RunView& run, RunProcesses& processes, Judges judges)
      : run_(run), processes_(processes), judges_(std::move(judges)) {}

  // Takes a worker that has ended, has been killed or has reported an error out of the run's processes. Waits for the
  // end of the process for a while, and kills a process that reported an error and does not end. Returns WorkerEnded
  // for a worker that was leaving. For a lost worker finds the cause, writes the event "fault" and returns WorkerLost.
  // Returns nothing if the run loses nothing by the end of the worker. `evidence`: what the caller knows already.
  std::optional<decisions::Event> lose(decisions::WorkerId id, faults::Evidence evidence);
  // Finds the cause of the loss of the scribe, and writes the event "fault". Records wait in the ring, the state waits
  // in shared memory: a new scribe writes on.
  decisions::ScribeLost lose_scribe(const ChildEnd& ended, bool hung);
  // Notes a worker's message about a wrong result in an audit; the worker then ends. `vouched`: the newest step for
  // which audits found everything correct.
  void note_found(decisions::WorkerId id, Step vouched) { judges_.audits.note_found(id, vouched); }
  // Notes that the scribe found the state of the step damaged in memory, and writes the event "fault".
  void note_damaged_state(Step step, const Error& error);
  // Diagnoses an error without a lost worker, and writes the event "fault": a process cannot be started, or the scribe
  // reports an error. `worker`: the event's field, null or "scribe".
  decisions::FaultVerdict diagnose(const Json& worker, const Error& error);

  const LossRecord* of(decisions::WorkerId id) const;  // null: nothing is known

 private:
  const RunView run_;
  RunProcesses& processes_;
  const Judges judges_;
  resources::MemoryEvidence memory_evidence_;
  std::map<decisions::WorkerId, LossRecord> losses_;
};

}  // namespace estrain::launch

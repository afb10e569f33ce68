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

// The report about a lost worker, if the run ends because of the loss.
struct LossRecord {  // NOLINT(bugprone-exception-escape): moving a Json throws nothing
  Json details;
  std::string last_words;  // the last words of the worker's log
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

  // Returns the facts about a worker that has ended or has been killed; nothing if the run loses nothing by this.
  std::optional<decisions::Event> lose(decisions::WorkerId id, faults::Evidence evidence);
  // Reports the loss of the scribe. Records wait in the ring, the state waits in shared memory: a new scribe writes on.
  decisions::ScribeLost lose_scribe(const ChildEnd& ended, bool hung);
  // Notes a worker's message about a wrong result in an audit; the worker then ends.
  void note_found(decisions::WorkerId id, Step vouched) { judges_.audits.note_found(id, vouched); }
  // Notes that the scribe found the state of the step damaged in memory, and logs the error.
  void note_damaged_state(Step step, const Error& error);
  // Diagnoses an error without a lost worker: a process cannot be started, or the scribe reports an error. `worker` is
  // null, or "scribe".
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

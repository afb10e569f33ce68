#pragma once
// Finds the cause when a worker or the scribe is lost. core/run/decisions decides whether and how to continue.

#include <map>
#include <string>

#include "core/job/resources/memory_evidence.h"
#include "core/run/faults/diagnosis.h"
#include "core/run/launch/launcher/parts/audits.h"
#include "core/run/launch/launcher/parts/run.h"

namespace estrain::launch {

// The report about a lost worker, if the run ends because of the loss.
struct LossRecord {  // NOLINT(bugprone-exception-escape): moving a Json throws nothing
  Json details;
  std::string last_words;  // the last words of the worker's log
};

class Losses {
 public:
  Losses(Run& run, Audits& audits);

  // Tells decide() the facts about a worker that has ended or has been killed.
  void lose(decisions::WorkerId id, faults::Evidence evidence);
  // Reports the loss of the scribe. Records wait in the ring, the state waits in shared memory: a new scribe writes on.
  void lose_scribe(const ChildEnd& ended, bool hung);
  // Diagnoses an error without a lost worker: a process cannot be started, or the scribe reports an error. `worker` is
  // null, or "scribe".
  decisions::Verdict diagnose(const Json& worker, const Error& error);

  const LossRecord* of(decisions::WorkerId id) const;  // null: nothing is known

 private:
  Run& run_;
  Audits& audits_;
  faults::FaultTable faults_;
  resources::MemoryEvidence memory_evidence_;
  std::map<decisions::WorkerId, LossRecord> losses_;
};

}  // namespace estrain::launch

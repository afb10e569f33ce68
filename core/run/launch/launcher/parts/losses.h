#pragma once
// Finds the cause when a worker or the scribe is lost. core/run/decisions decides whether and how to go on.

#include <map>
#include <string>

#include "core/job/resources/memory_evidence.h"
#include "core/run/faults/diagnosis.h"
#include "core/run/launch/launcher/parts/audits.h"
#include "core/run/launch/launcher/parts/run.h"

namespace estrain::launch {

// The report about a lost worker, for a run that ends because of it.
struct LossRecord {  // NOLINT(bugprone-exception-escape): moving a Json throws nothing
  Json details;
  std::string last_words;  // of its log
};

class Losses {
 public:
  Losses(Run& run, Audits& audits);

  // The worker has ended, or has been killed: tells decide() what is known of it.
  void lose(decisions::WorkerId id, faults::Evidence evidence);
  // The scribe is lost. Its records wait in the ring, the state in shared memory: another scribe writes on.
  void lose_scribe(const ChildEnd& ended, bool hung);
  // Diagnoses an error that no lost worker caused: a process cannot be started, or the scribe reports one. `worker` is
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

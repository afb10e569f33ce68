#pragma once
// The launcher's reports while the job runs: the progress line and the answer to `estrain status`.

#include "core/run/launch/control/status.h"
#include "core/run/launch/launcher/parts/audits.h"
#include "core/run/launch/launcher/parts/scribe_desk.h"
#include "core/run/launch/launcher/parts/stages.h"

namespace estrain::launch {

class StatusReport {
 public:
  StatusReport(Run& run, const Stages& stages, const ScribeDesk& scribe, Audits& audits)
      : run_(run), stages_(stages), scribe_(scribe), audits_(audits) {}

  Progress progress() const;
  RunStatus status() const;

 private:
  void add_progress(RunStatus& status) const;
  void add_elastic(RunStatus& status) const;
  std::vector<WorkerStatus> workers() const;
  std::optional<std::vector<HostStatus>> hosts() const;

  Run& run_;
  const Stages& stages_;
  const ScribeDesk& scribe_;
  Audits& audits_;
};

}  // namespace estrain::launch

#pragma once
// The launcher's reports while the job runs: the progress line and the answer to `estrain status`.

#include "core/run/launch/control/status.h"
#include "core/run/launch/launcher/parts/audits.h"
#include "core/run/launch/launcher/parts/hosts.h"
#include "core/run/launch/launcher/parts/scribe_desk.h"
#include "core/run/launch/launcher/parts/speeds.h"

namespace estrain::launch {

class StatusReport {
 public:
  // The parts whose knowledge is reported.
  struct Sources {
    const Speeds& speeds;
    const ScribeDesk& scribe;
    const Hosts& hosts;
    Audits& audits;
  };
  StatusReport(const RunView& run, const RunProcesses& processes, const Sources& parts)
      : run_(run), processes_(processes), parts_(parts) {}

  Progress progress() const;
  RunStatus status() const;

 private:
  std::string why_without_room() const;
  void add_progress(RunStatus& status) const;
  void add_elastic(RunStatus& status) const;
  std::vector<WorkerStatus> workers() const;
  std::optional<std::vector<HostStatus>> hosts() const;

  const RunView run_;
  const RunProcesses& processes_;
  const Sources parts_;
};

}  // namespace estrain::launch

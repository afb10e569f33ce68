#pragma once
// Ends a run: finished, stopped with a checkpoint, or failed with everything committed saved.

#include <functional>
#include <memory>

#include "core/run/launch/launcher/parts/audits.h"
#include "core/run/launch/launcher/parts/hosts.h"
#include "core/run/launch/launcher/parts/losses.h"
#include "core/run/launch/launcher/parts/speeds.h"
#include "core/run/launch/launcher/requests.h"
#include "core/run/launch/launcher/status_report.h"
#include "core/state/run_directory/verdict.h"

namespace estrain::launch {

class Ending {
 public:
  // The parts that still work at the end of a run.
  struct Parts {
    Losses& losses;
    Speeds& speeds;
    StatusReport& report;
    Hosts& hosts;
    Audits& audits;
    const Requests& requests;
    const RunProcesses& processes;
  };
  // `control`: the way to the clients.
  Ending(const RunView& run, const std::unique_ptr<ControlServer>& control, const Parts& parts)
      : run_(run), control_(control), parts_(parts) {}

  // Returns the exit code. Throws Error where the job failed. Writes verdict.json in both cases. `close_files`: further
  // rounds of the launcher, until the last state is saved and the scribe has finished the files.
  int end(const std::function<void()>& close_files);

 private:
  int close_and_report(const std::function<void()>& close_files);
  void note_verdict(run_directory::RunVerdict verdict) const;
  std::string resume_advice() const;
  int report();
  int report_finish();
  int report_stop();
  [[noreturn]] void go_on_changed();
  void report_faults();
  void report_stages();
  [[noreturn]] void fail();
  std::string advice_at_failure(bool is_users_code) const;
  void answer_stops(const Json& answer);

  const RunView run_;
  const std::unique_ptr<ControlServer>& control_;
  const Parts parts_;
};

}  // namespace estrain::launch

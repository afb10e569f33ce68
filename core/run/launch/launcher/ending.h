#pragma once
// Ends a run: finished, stopped with a checkpoint, or failed with everything committed saved.

#include <functional>

#include "core/run/launch/launcher/parts/audits.h"
#include "core/run/launch/launcher/parts/hosts.h"
#include "core/run/launch/launcher/parts/losses.h"
#include "core/run/launch/launcher/parts/scribe_desk.h"
#include "core/run/launch/launcher/parts/supervision.h"
#include "core/run/launch/launcher/status_report.h"
#include "core/state/run_directory/verdict.h"

namespace estrain::launch {

class Ending {
 public:
  // The parts that still work at the end of a run.
  struct Parts {
    Losses& losses;
    ScribeDesk& scribe;
    Stages& stages;
    Speeds& speeds;
    StatusReport& report;
    Supervision& supervision;
    Hosts& hosts;
    Audits& audits;
  };
  // `listen`: takes up the signals and the clients' requests received so far, without waiting for more.
  Ending(Run& run, const Parts& parts, std::function<void()> listen)
      : run_(run), parts_(parts), listen_(std::move(listen)) {}

  // Returns the exit code. Throws Error where the job failed. Writes verdict.json in both cases.
  int end();

 private:
  int close_and_report();
  void note_verdict(run_directory::RunVerdict verdict) const;
  std::string resume_advice() const;
  void close_files();
  int report();
  int report_finish();
  int report_stop();
  [[noreturn]] void go_on_changed();
  void report_faults();
  void report_stages();
  [[noreturn]] void fail();
  std::string advice_at_failure() const;
  void answer_stops(const Json& answer);

  Run& run_;
  const Parts parts_;
  const std::function<void()> listen_;
};

}  // namespace estrain::launch

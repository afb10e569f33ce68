#pragma once
// The launcher's part in stages: opens and closes a stage, reports its results, and reports changes of workers.

#include "core/run/decisions/action.h"
#include "core/run/launch/launcher/parts/hosts.h"
#include "core/run/launch/launcher/parts/run.h"
#include "core/run/launch/launcher/processes/sentry.h"

namespace estrain::launch {

class Stages {
 public:
  Stages(Run& run, Sentry& sentry, Hosts& hosts) : run_(run), sentry_(sentry), hosts_(hosts) {}

  // Attaches the memory once all first workers are ready, and holds the state of step 0 for its checkpoint.
  void begin_training();
  // Takes up the stage under way in a fresh launcher.
  void go_on();
  void open(const decisions::OpenStage& open);
  decisions::StageClosed close(const decisions::CloseStage& close);
  void release_unused_slots();

  void report_resize(const decisions::ResizeUnderWay& done);
  void report_recovery(const decisions::ReportRecovery& report);
  // Logs the results of the ending stage.
  void log_speed(int64_t stage);
  // Once: how long the user waited from the start of this process to the end of the first step.
  void note_first_step();

  // The mean since the stage began; 0: no step yet.
  double step_seconds() const;
  bool has_steps() const { return run_.trained() > rate_from_step_; }

 private:
  void start();
  bool workers_exchange() const;
  void tell_of_slow_reading(const SpeedMeter::Span& span);
  void measure_rate_from(int64_t ns, int64_t step);

  Run& run_;
  Sentry& sentry_;
  Hosts& hosts_;
  bool first_step_seen_ = false;
  // For rates: when and where the stage began.
  int64_t rate_from_ns_ = 0, rate_from_step_ = 0;
};

}  // namespace estrain::launch

#pragma once
// The launcher's part in stages: starts and closes a stage, and reports changes of workers.

#include "core/run/decisions/action.h"
#include "core/run/decisions/event.h"
#include "core/run/launch/launcher/parts/hosts.h"
#include "core/run/launch/launcher/parts/run_view.h"
#include "core/run/launch/launcher/parts/speeds.h"

namespace estrain::launch {

class Stages {
 public:
  Stages(const RunView& run, RunProcesses& processes, Hosts& hosts) : run_(run), processes_(processes), hosts_(hosts) {}

  // Says that the job begins to train, and has the scribe save the state of step 0.
  void begin_training();
  // Assigns the ranges to the workers, which start at once. The stage is open.
  // `exchange`: the ticket of an exchange that all workers have prepared; 0: none.
  void start(int64_t exchange);
  void prepare_exchange(const decisions::PrepareExchange& prepare) const;
  decisions::StageClosed close(const decisions::CloseStage& close) const;
  void release_unused_slots() const;

  // Reports the change, tells `speeds` of its cost, and returns the answer for the client of the change.
  Json report_resize(const decisions::ResizeUnderWay& done, Speeds& speeds) const;
  void report_recovery(const decisions::ReportRecovery& report) const;

 private:
  Json report_batch(const decisions::ResizeUnderWay& done, double stood_still) const;

  const RunView run_;
  RunProcesses& processes_;
  Hosts& hosts_;
  bool told_of_secrecy_ = false;
};

}  // namespace estrain::launch

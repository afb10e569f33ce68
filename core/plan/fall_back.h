#pragma once
// Whether a plan keeps what it promised: a watch that says when a job has run slower than estimated for long enough,
// and whether the plan before was better (EasyScale, section 3.4: on a slowdown with added devices it falls back to
// those it had). Pure: times are told, from whatever clock.

#include <optional>
#include <string>

#include "core/plan/plan.h"

namespace estrain::plan {

class FallBackWatch {
 public:
  struct Rules {
    double margin = 0.20;      // slower than estimated by more than this share: slow
    double recovered = 0.10;   // by no more than this: as estimated again. Between the two nothing changes
    double seconds = 10;       // slow for so long in all, without having recovered: a decision
    int64_t observations = 5;  // and seen so often
    // Two observations further apart than this, or in the wrong order, say nothing about the time between: the clock
    // was set, or the machine slept. At least a few times as long as a step.
    double longest_gap = 30;
  };

  struct Decision {
    bool fall_back = false;              // to the plan before: it is faster than what has been measured
    Plan plan;                           // the one to run: that before, or the one in force
    double measured_over_estimated = 1;  // the mean since the job became slow: what the estimate has to be corrected by
    double slow_seconds = 0;             // for how long
    std::string reason;                  // one sentence
  };

  // `before_step_seconds`: what steps of the plan before really took; its estimate where that is not known. Throws
  // Fault::bug for rules that contradict each other or an estimate that is no positive number.
  FallBackWatch(Plan before, double before_step_seconds, Plan now, Rules rules);

  // Seconds that a step took (a mean over some steps is best), at a time in seconds. One decision for each episode:
  // there is no other until the job has run as estimated for `seconds`. A time that is not a positive number is passed
  // over.
  std::optional<Decision> observe(double step_seconds, double at);

  // Slow seconds counted so far; 0 when all is as estimated.
  double slow_seconds() const { return slow_seconds_; }

 private:
  double elapsed(double at);
  void count_slow(double ratio, double seconds);
  void count_recovered(double seconds);
  Decision decide();

  Plan before_, now_;
  double before_step_seconds_;
  Rules rules_;
  std::optional<double> last_;
  double slow_seconds_ = 0, usual_seconds_ = 0;
  double weighted_ratio_ = 0;  // times seconds
  int64_t slow_observations_ = 0;
  bool decided_ = false;
};

}  // namespace estrain::plan

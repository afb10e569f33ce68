#pragma once
// Decides when changing a running job pays, and when a change has to be taken back, with rules against flapping. Pure.

#include <cstdint>
#include <optional>
#include <string>

#include "core/planning/plan/plan.h"

namespace estrain::plan {

// A change of devices or shares under consideration.
struct Change {
  double step_seconds_now = 0, step_seconds_then = 0;
  int64_t steps_left = 0;
  double cost_seconds = 0;  // measured cost of a change: the pause, and the slow-down of others by warming up
};

struct ChangeWorth {
  bool worth = false;
  double gain_seconds = 0;  // over the remaining steps, without deducting the cost
  std::string reason;
};

// A change pays if steps become shorter by at least kLeastGain, and the time saved over the remaining steps is at least
// kGainOverCost times the cost. An offer that is soon withdrawn, or a job about to end, changes nothing.
constexpr double kLeastGain = 0.03;
constexpr double kGainOverCost = 2;
ChangeWorth weigh(const Change& change);

// Watches, window by window, the gain of the best plan for the current devices, and says when to adopt this
// plan: after a gain of at least kGain in enough windows, minus windows without the gain. A change restarts
// the count, so changes are at least as far apart as these windows. A change with a gain below kGain is not
// undone.
class GainWatch {
 public:
  static constexpr double kGain = 0.10;
  static constexpr int kMiss = 3;       // windows cancelled by a window without the gain
  static constexpr int kToMove = 4;     // windows before ESTs move between existing workers, which costs
                                        // little
  static constexpr int kToReturn = 32;  // before ESTs move back to a plan recently measured to be slower
  static constexpr int kToResize = 20;  // windows before the job uses new devices

  explicit GainWatch(int windows) : needed_(windows) {}
  // Takes the seconds per step with the current plan and with the best plan, both estimated from the same measurements.
  bool observe(double step_seconds_now, double step_seconds_best);
  void reset() { windows_ = 0; }

 private:
  int needed_, windows_ = 0;
};

// Checks whether a plan is as fast as estimated: says when a job has run slower for long enough, and whether the
// previous plan was better (EasyScale, section 3.4: if added devices slow a job down, the job falls back to the old
// devices). The caller passes times from any clock.
class FallBackWatch {
 public:
  struct Rules {
    double margin = 0.20;      // slow: slower than estimated by more than this fraction
    double recovered = 0.10;   // as estimated again: slower by at most this. Between the two nothing changes
    double seconds = 10;       // decide after this much slow time without a recovery
    int64_t observations = 5;  // and after this many slow observations
    // Seconds. If two observations are further apart, or in the wrong order, the time between the two is ignored: the
    // clock was set, or the machine slept. Must be at least a few steps long.
    double longest_gap = 30;
  };

  struct Judgement {
    bool fall_back = false;              // to the previous plan, faster than the measured steps
    Plan plan;                           // the plan to run: the previous or the current one
    double measured_over_estimated = 1;  // the mean since the job became slow: the factor to correct the estimate
    double slow_seconds = 0;             // duration of the slow time
    std::string reason;                  // one sentence
  };

  // `before_step_seconds`: the measured step time of the previous plan, or the estimate if no time was measured. Throws
  // Fault::bug for contradictory rules or an estimate other than a positive number.
  FallBackWatch(Plan before, double before_step_seconds, Plan now, Rules rules);

  // Takes the seconds of a step (best a mean over several steps) at a time in seconds. Returns a decision once per
  // episode: before the next decision, the job must run as estimated for `seconds`. Ignores a time other than a
  // positive number.
  std::optional<Judgement> observe(double step_seconds, double at);

  // Slow seconds counted so far; 0 if the job runs as estimated.
  double slow_seconds() const { return slow_seconds_; }

 private:
  double elapsed(double at);
  void count_slow(double ratio, double seconds);
  void count_recovered(double seconds);
  Judgement decide();

  Plan before_, now_;
  double before_step_seconds_;
  Rules rules_;
  std::optional<double> last_;
  double slow_seconds_ = 0, usual_seconds_ = 0;
  double weighted_ratio_ = 0;  // weighted by seconds
  int64_t slow_observations_ = 0;
  bool decided_ = false;
};

}  // namespace estrain::plan

#pragma once
// Decides when changing a running job pays, with rules against flapping. Pure.

#include <cstdint>
#include <string>

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

}  // namespace estrain::plan

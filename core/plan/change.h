#pragma once
// When changing a running job pays, and when not to: rules that keep it from flapping. Pure.

#include <cstdint>
#include <string>

namespace estrain::plan {

// A change of devices or shares under consideration.
struct Change {
  double step_seconds_now = 0, step_seconds_then = 0;
  int64_t steps_left = 0;
  double cost_seconds = 0;  // of one change, as measured: standing still, and what warming took from the others
};

struct Verdict {
  bool worth = false;
  double gain_seconds = 0;  // over the steps left, the cost not deducted
  std::string reason;
};

// A change is worth it if steps get shorter by at least kLeastGain and the time it saves over the steps left is at
// least kGainOverCost times its cost. So an offer taken back at once, or a job about to end, changes nothing.
constexpr double kLeastGain = 0.03;
constexpr double kGainOverCost = 2;
Verdict weigh(const Change& change);

// Looks, window by window, at what the best plan for the devices at hand would bring, and says when to follow it: when
// a gain of at least kGain has shown in so many windows, those without it counting against them. A change that has been
// made starts the count anew, so that two are at least that far apart, and what a change gained less than kGain cannot
// undo it.
class GainWatch {
 public:
  static constexpr double kGain = 0.10;
  static constexpr int kMiss = 3;    // windows that one without the gain takes back
  static constexpr int kToMove = 4;  // windows before ESTs move between the workers that are there: that costs little
  static constexpr int kToReturn =
      32;  // before they move back to where steps were measured to take longer not long ago
  static constexpr int kToResize = 20;  // before other devices are used

  explicit GainWatch(int windows) : needed_(windows) {}
  // Seconds per step with the plan in force and with the best one, both estimated from the same measurements.
  bool observe(double step_seconds_now, double step_seconds_best);
  void reset() { windows_ = 0; }

 private:
  int needed_, windows_ = 0;
};

}  // namespace estrain::plan

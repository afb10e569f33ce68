#pragma once
// A launcher's memory of changes of its devices: the cost of each change, the decisions and their reasons, and the
// growth on trial. Handed over across a re-exec.

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json/json.h"
#include "core/run/launch/preflight/devices.h"

namespace estrain::launch {

struct NotedDecision {
  int64_t step = 0;
  std::string what;    // "2 of 3 offered devices are taken"
  std::string reason;  // "steps get shorter by 45 %: …"
};

// More devices than before, on trial.
struct GrowthTrial {
  Devices held_before;
  Assignment devices_before;       // each with its number of ESTs
  double step_seconds_before = 0;  // as measured
};

// A stretch of the run on one set of devices.
struct StageSummary {
  int64_t from_step = 0, to_step = 0;
  std::string devices;      // "cpu=5,cpu=3"
  double step_seconds = 0;  // 0: too short to be measured
};

class ChangeHistory {
 public:
  static constexpr size_t kDecisionsKept = 10;
  static constexpr size_t kStagesKept = 20;

  void note(NotedDecision decision);
  const std::deque<NotedDecision>& decisions() const { return decisions_; }

  // Takes in one change: all seconds for which the change kept the job from training. `keeps_devices`: ESTs only moved
  // between the existing workers. The history keeps a mean for either kind of change.
  void count_change(double seconds, bool keeps_devices);
  // Returns the mean seconds of the measured changes of this kind; before the first such change `unmeasured`.
  double change_seconds(bool keeps_devices, double unmeasured) const;

  // The time line of devices and throughput. A stage begins where the stage before ended. A stage without a step is
  // left out.
  void end_stage(int64_t step, std::string devices, double step_seconds);
  int64_t stage_began = 0;  // step; end_stage() sets it, and the launcher at the start of a run
  const std::deque<StageSummary>& stages() const { return stages_; }

  std::optional<GrowthTrial> trial;
  double estimated_step_seconds = 0;  // by the plan in force; 0: no plan was made
  std::string plan_reason;

  Json to_json() const;
  static ChangeHistory from_json(const Json& json);

 private:
  struct Cost {
    int64_t changes = 0;
    double seconds = 0;
  };
  std::deque<NotedDecision> decisions_;
  std::deque<StageSummary> stages_;
  Cost resizes_, rebalances_;
};

}  // namespace estrain::launch

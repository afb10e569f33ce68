#pragma once
// Replays the steps before a difference to find the reproducible run, if any.
//
// The caller repeats the steps from the last equal checkpoint of both runs, once with A's placement and once with B's,
// each to a checkpoint of the step of the difference. Then judge_replay compares.

#include <optional>
#include <string>

#include "core/base/json/json.h"
#include "core/inspect/verify/comparison.h"

namespace estrain::verify {

struct ReplayPlan {
  Step from;               // resume this checkpoint,
  Step to;                 // and run to this step
  std::string checkpoint;  // path of A's (B's is equal)
};

// Nothing if the runs are identical, belong to different jobs, or have no equal checkpoint before the difference.
std::optional<ReplayPlan> plan_replay(const Comparison& comparison, const Subject& a);

enum class Repeats {
  difference,  // the replays differ from each other: systematic, in the placement or the code
  a_only,      // both replays give A's record: B was disturbed once (a flipped bit, an edited checkpoint)
  b_only,      // vice versa
  neither,     // the replays agree, but with neither run: both runs were disturbed, or ran on other hardware
  both,        // both states equal the replays' states: only the records differ
};

struct ReplayVerdict {
  Repeats repeats;
  std::vector<TensorDifference>
      tensors;  // between the replays, or between the replay and the disturbed run's checkpoint
  std::string sentence;
};

// `replay_a`, `replay_b`: run directories or checkpoints of step `plan.to`. Throws Fault::mismatch if a replay has no
// checkpoint of that step.
ReplayVerdict judge_replay(const ReplayPlan& plan, const Subject& a, const Subject& b, const Subject& replay_a,
                           const Subject& replay_b);

std::string to_text(const ReplayVerdict& verdict);
Json to_json(const ReplayVerdict& verdict);

}  // namespace estrain::verify

#pragma once
// What a repetition of the steps before a difference tells: which run, if any, can be repeated.
//
// The caller runs the stretch again, from the last checkpoint that both runs have and that is equal, once as A was
// placed and once as B was, each to a checkpoint of the step of the difference; then judge_replay compares.

#include <optional>
#include <string>

#include "core/base/json.h"
#include "core/verify/comparison.h"

namespace estrain::verify {

struct ReplayPlan {
  Step from;               // resume this checkpoint,
  Step to;                 // and run to this step
  std::string checkpoint;  // path of A's (B's is equal)
};

// Nothing if the runs are identical, not of one job, or have no equal checkpoint before the difference.
std::optional<ReplayPlan> plan_replay(const Comparison& comparison, const Subject& a);

enum class Repeats {
  difference,  // the replays differ from each other: systematic, in the placement or the code
  a_only,      // both replays give what A recorded: something befell B once (a flipped bit, an edited checkpoint)
  b_only,      // the other way round
  neither,     // the replays agree with each other and with neither: both were disturbed, or made on other hardware
  both,        // both states are those of the replays: only what was recorded of them differs
};

struct ReplayVerdict {
  Repeats repeats;
  std::vector<TensorDifference>
      tensors;  // between the replays, or between the replay and the disturbed run's checkpoint
  std::string sentence;
};

// `replay_a`, `replay_b`: run directories or checkpoints of step `plan.to`. Throws Fault::mismatch if one has no
// checkpoint of that step.
ReplayVerdict judge_replay(const ReplayPlan& plan, const Subject& a, const Subject& b, const Subject& replay_a,
                           const Subject& replay_b);

std::string to_text(const ReplayVerdict& verdict);
Json to_json(const ReplayVerdict& verdict);

}  // namespace estrain::verify

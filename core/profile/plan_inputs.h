#pragma once
// From profiles to what the planner takes (plan/plan.h).

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/plan.h"
#include "core/profile/profiles.h"

namespace estrain::profile {

struct KindCount {
  std::string kind;
  int64_t count = 0;

  bool operator==(const KindCount&) const = default;
};

// What a plan rests on, of one kind.
struct Basis {
  std::string kind;
  double mini_batch_seconds = 0;  // alone
  double spread = 0;              // relative; 0: not known
  int64_t samples = 0;
  int64_t age_seconds = 0;
  int64_t worker_bytes = 0;  // 0: not known
};

struct PlanInputs {
  plan::Job job;                          // exchange and crowding: the mean of the kinds
  std::vector<plan::DeviceGroup> groups;  // of the kinds that have been measured, in the order given
  std::vector<Basis> basis;               // of each group
  std::vector<std::string> missing;       // kinds not measured yet
  std::vector<std::string> incomplete;    // measured, but neither with more than one worker nor in their exchange
};

// `kinds`: devices at hand, each kind once. Below D2 a plan is of one kind, unless `allow_mixed`.
PlanInputs plan_job(const Profiles& profiles, const spec::JobSpec& spec, const Host& host,
                    const std::vector<KindCount>& kinds, int64_t now, bool allow_mixed = false);

}  // namespace estrain::profile

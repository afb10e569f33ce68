#pragma once
// Converts profiles to the planner's input (planning/plan/plan.h).

#include <cstdint>
#include <string>
#include <vector>

#include "core/planning/plan/plan.h"
#include "core/planning/profile/capability.h"
#include "core/planning/profile/profiles.h"

namespace estrain::profile {

struct KindCount {
  std::string kind;  // "cpu", "cuda:0"
  int64_t count = 0;

  bool operator==(const KindCount&) const = default;
};

// The measurements behind a plan, for a kind.
struct Basis {
  std::string kind;
  double mini_batch_seconds = 0;  // of a single worker
  double spread = 0;              // interquartile range of the times over their median; 0: unknown
  int64_t samples = 0;            // number of measurements; 0: scaled from another measurement
  int64_t age_seconds = 0;        // of the last measurement
  int64_t worker_bytes = 0;       // private memory of a worker; 0: unknown
};

struct PlanInputs {
  plan::PlannedJob job;                   // exchange and crowding: means over the kinds
  std::vector<plan::DeviceGroup> groups;  // the measured kinds, in the given order
  std::vector<Basis> basis;               // of each group
  std::vector<std::string> missing;       // kinds not measured yet, in no group
  std::vector<std::string> incomplete;    // kinds in `groups`, not measured with several workers, though a plan may
                                          // have several
};

// `kinds`: available devices, each kind once. Below D2 a plan has one kind, unless `allow_mixed`: sets
// PlannedJob::one_kind. `now`: seconds since 1970, for Basis::age_seconds.
PlanInputs plan_job(const Profiles& profiles, const spec::JobSpec& spec, const MachineFacts& host,
                    const std::vector<KindCount>& kinds, int64_t now, bool allow_mixed = false);

// Fits the coefficients of plan::ExchangeCost to the measurements: non-negative least squares.
//
// Exact: tries every subset of the four coefficients as the non-zero coefficients. A sample's weight is its number of
// measurements (at most Estimate::kMemory; one half if scaled). If the samples do not determine the coefficients, for
// example if all have the same number of workers, the smallest squares spread the cost evenly, and nothing grows
// without bound outside the measurements. Without samples the exchange costs nothing.
plan::ExchangeCost fit_exchange(const std::vector<ExchangeSample>& samples);

}  // namespace estrain::profile

#pragma once
// An end of a job of a pool, as the pool keeps it for the tables of failures (core/pool/failures.h). A job that is
// tried again has several.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json/fields.h"
#include "core/base/json/json.h"

namespace estrain::dispatch {

// The first three are the final statuses of M. Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN
// Training Workloads" (USENIX ATC 2019, the Philly study), Table 6.
enum class Outcome {
  passed,
  killed,        // cancelled
  unsuccessful,  // failed for good
  retried,       // failed, and the pool tries again
};
std::string_view outcome_name(Outcome outcome);
Json to_field(Outcome outcome);  // as core/base/json/codec.h says
void from_field(const Json& json, Outcome& outcome);

struct JobEnd {
  int64_t job = 0;
  double time = 0;  // the moment
  std::string user;
  Outcome outcome = Outcome::passed;
  std::string cause = {};        // an id of the fault table, or kCheckCause; empty: no failure
  std::string fault_class = {};  // "user", "infrastructure" or "engine"
  int64_t step = 0;              // committed
  // Since the job's last end, or its submission: seconds with devices (the study's runtime to failure), and
  // device-seconds. All ends of a job together have the job's device-seconds.
  double seconds = 0, device_seconds = 0;
  int64_t devices = 0;                  // at the end
  std::vector<std::string> files = {};  // of the job, as the failure names files
  bool operator==(const JobEnd&) const = default;
  ESTRAIN_FIELDS(job, time, user, outcome, cause, fault_class, step, seconds, device_seconds, devices, files)
};

inline constexpr std::string_view kCheckCause = "check";  // `estrain check` refused the job: the job had no device

}  // namespace estrain::dispatch

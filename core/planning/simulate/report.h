#pragma once
// The results of a simulation as figures, JSON, a table and a page.

#include <string>
#include <vector>

#include "core/base/json/json.h"
#include "core/planning/simulate/simulation.h"

namespace estrain::simulate {

struct Figures {
  double mean_jct = 0, median_jct = 0, p99_jct = 0;  // job completion time, from submission; percentiles interpolated
  double mean_wait = 0;                              // from submission to the first devices
  double makespan = 0;                               // from the beginning of the workload to the last completion
  double resizes_per_job = 0;                        // further placements after the first
  double mean_devices_in_use = 0;                    // over the makespan
  size_t deadlines = 0, deadlines_met = 0;
};

Figures figures_of(const Result& result);

// {policy, workload, seed, charge_s, jobs, mean_jct_s, median_jct_s, p99_jct_s, makespan_s, resizes_per_job,
//  mean_devices_in_use, mean_wait_s, deadlines, deadlines_met, jct_s: {job: seconds},
//  wait_s: {job: seconds until its first devices}}. A replayed pool also has
//  decisions: [{at_s, job, devices, reason}].
// If several jobs have the same name, the first counts.
Json to_json(const Result& result);

// Returns a line for each result; if a policy has several workloads, also a line with the policy's means.
std::string format_table(const std::vector<Result>& results);

// Returns a self-contained HTML page: the table, and for each result the devices in use over time and a bar for each
// job. Needs Limits::keep_stretches.
std::string format_page(const std::string& title, const std::vector<Result>& results);

}  // namespace estrain::simulate

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

Figures figures_of(const SimulationResult& result);

// Table 2 of Philly (ATC'19): how often jobs that ran for a minute or more waited for each of two causes, and for how
// long; and how many first starts were out of order.
struct Delays {
  static constexpr int64_t kSmall = 4;  // devices of a small job, at the most
  struct OfSize {
    size_t jobs = 0, fair_share = 0, fragmentation = 0, out_of_order = 0;  // each counts jobs
  } small, large;
  double fair_share_seconds = 0, fragmentation_seconds = 0;
};
Delays delays_of(const SimulationResult& result);

// {policy, workload, seed, charge_s, jobs, mean_jct_s, median_jct_s, p99_jct_s, makespan_s, resizes_per_job,
//  mean_devices_in_use, mean_wait_s, deadlines, deadlines_met, jct_s: {job: seconds},
//  wait_s: {job: seconds until its first devices}}. A replayed pool also has
//  decisions: [{at_s, job, devices, reason, names}]; names: of the devices. A workload with quotas also has
//  delays: {small, large: {jobs, fair_share, fragmentation, out_of_order}, fair_share_s, fragmentation_s}.
//  A workload with early stops also has end_error_half_way: the median error of an end foreseen half-way.
// If several jobs have the same name, the first counts.
Json to_json(const SimulationResult& result);

// Returns a line for each result; if a policy has several workloads, also a line with the policy's means.
std::string format_table(const std::vector<SimulationResult>& results);

// Returns the delays of each result with quotas, a block of lines; empty if none has quotas.
std::string format_delays(const std::vector<SimulationResult>& results);

// Returns a self-contained HTML page: the table, and for each result the devices in use over time and a bar for each
// job. Needs Limits::keep_stretches.
std::string format_page(const std::string& title, const std::vector<SimulationResult>& results);

}  // namespace estrain::simulate

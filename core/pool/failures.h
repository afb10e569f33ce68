#pragma once
// The tables of `estrain pool status --faults`, made from the ends in the ledger: Tables 6 and 7 of M. Jeon et al.,
// "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads" (USENIX ATC 2019, the Philly study),
// of this pool.

#include <string>
#include <vector>

#include "core/base/json/json.h"
#include "core/planning/dispatch/ends/ends.h"

namespace estrain::pool {

// {statuses: [{status, jobs, jobs_part, device_seconds, device_seconds_part}] (Table 6: "passed", "killed" (cancelled),
//  "unsuccessful" and "total", of jobs that are over),
//  causes: [{cause, class, trials, jobs, users, seconds: {median, p90, p95, total, part}, trials_on: {"1", "2-4",
//  "5+"}, device_seconds, device_seconds_part, files: [the last files named, newest first]}] (Table 7, most trials
//  first)}
// A trial is a failure, also of a job tried again and of a job still in the queue. seconds: with devices until the
// failure, since the job's failure before; percentiles by nearest rank. trials_on: by devices at the failure. Parts: of
// all causes. A job refused by `estrain check` had no devices: such trials count in no percentile and under no devices.
Json failures_json(const std::vector<dispatch::JobEnd>& ends);
std::string format_failures(const Json& failures);

}  // namespace estrain::pool

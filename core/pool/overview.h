#pragma once
// The text and JSON of `estrain pool list`, `status` and `log`, made from the ledger. Failures: failures.h.

#include <string>
#include <vector>

#include "core/base/json/json.h"
#include "core/pool/ledger/ledger.h"
#include "core/pool/pool_directory.h"

namespace estrain::pool {

// A list of {job, name, user, uid, priority, phase, reason, background, beside, devices, step, total_steps, batch,
// lr_factor, submitted, started, finished, jct_s, device_seconds, changes, run}; `beside`: the job on whose device a
// guest is, else null; `devices`: the devices held now; batch and lr_factor: null unless the pool may change the job's
// batch.
Json jobs_json(const PoolDirectory& directory, const dispatch::State& state);
std::string format_jobs(const dispatch::State& state, double now);

// {served, policy, devices: [{name, rack, state, job, guest}], jobs: {phase: count}, users: {name: device-seconds of
// late}, utilisation, faults: {cause: jobs}, held: [{job, reason}], batches: [{job, batch, lr_factor}] with changed
// batches only, charge_s, guests: [{job, beside, devices}], parted: [{job, guest}], guest_device_seconds, tolerance,
// memory: [{host, bytes, needed}] (host "": the daemon's), gpu_memory: [{device, bytes, needed}], waits_for_memory:
// [{job, reason}]}. Utilisation: part of the device-seconds held by jobs since the first submission.
Json status_json(const dispatch::State& state, bool is_served, double now);
std::string format_status(const Json& status);

// A list of {device, host, type, state, for_good, job, guest, name, user, since}. `own`: the name of the daemon's host.
// state: "free", "in use", "leaving" (asked back, for good or by a higher right, and not released yet), "away" (taken,
// and not lent again yet). job, name and user are null without a job, since if not known.
Json devices_json(const dispatch::State& state, const std::string& own);
std::string format_devices(const Json& devices, double now);

// " [cpu*2,nodeB/cpu]"; empty without names.
std::string in_brackets(const std::vector<std::string>& names);
std::string format_history(const std::vector<Line>& lines);
Json history_json(const std::vector<Line>& lines);

}  // namespace estrain::pool

#pragma once
// What `estrain pool list`, `status` and `log` tell, from what the ledger holds.

#include <string>
#include <vector>

#include "core/base/json/json.h"
#include "core/serve/ledger.h"
#include "core/serve/pool_directory.h"

namespace estrain::serve {

// A list of {job, name, user, priority, phase, reason, devices, step, total_steps, submitted, started, finished, jct_s,
// device_seconds, changes, run}; `devices` are those held now.
Json jobs_json(const PoolDirectory& directory, const dispatch::State& state);
std::string format_jobs(const dispatch::State& state, double now);

// {served, policy, devices: […], jobs: {phase: count}, users: {name: device-seconds of late}, utilisation, faults:
// {cause: jobs}, charge_s}. Utilisation: part of the device-seconds since the first submission that jobs have held.
Json status_json(const dispatch::State& state, bool is_served, double now);
std::string format_status(const Json& status);

// The jobs that are done, with what was measured of them, for `estrain simulate` (core/simulate/worlds/pool_world.h):
// on numbers of devices that were not measured, as reckoned from the nearest. A row "(taken)" for each device that was
// taken and lent again: when, and for how long (start_s).
std::string trace_of(const dispatch::State& state, const std::vector<Line>& history);

std::string format_history(const std::vector<Line>& lines);
Json history_json(const std::vector<Line>& lines);

}  // namespace estrain::serve

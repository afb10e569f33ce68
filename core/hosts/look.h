#pragma once
// A look at the agents of a run: whether the agents answer, run this program and have this key, and the round trip,
// bandwidth and clock difference to each agent. A look disturbs a job only by the bytes of the measurement.

#include <string>
#include <vector>

#include "core/base/json/json.h"
#include "core/hosts/setup.h"

namespace estrain::hosts {

// Returns a row for each name, in order:
//   {"host", "address", "cores", "round_trip_seconds", "clock_ahead_seconds"}, with `measure` "bytes_per_second", with
//   a spec "data" or "data_error"
//   {"host", "error", "advice", "fault"}: the failure of the last attempt. An agent that does not answer is tried until
//   the time is over; an agent with another version or another key, once.
Json look_at_agents(const LookSetup& setup);

}  // namespace estrain::hosts

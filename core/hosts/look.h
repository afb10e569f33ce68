#pragma once
// A look at the agents of a run: whether they answer, run this program and have this key, and what lies between: round
// trip, bandwidth, clocks. It disturbs no job beyond the bytes that it sends.

#include <string>
#include <vector>

#include "core/base/json/json.h"
#include "core/hosts/setup.h"

namespace estrain::hosts {

// A row for each name, in order:
//   {"host", "address", "cores", "round_trip_seconds", "clock_ahead_seconds"}, with `measure` "bytes_per_second", with
//   a spec "data" or "data_error"
//   {"host", "error", "advice", "fault"}: what the last attempt met. An agent that does not answer is tried until the
//   time is over; one of another version or with another key, once.
Json look_at_agents(const LookSetup& setup);

}  // namespace estrain::hosts

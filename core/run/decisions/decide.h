#pragma once
// Decides what a launcher does next: a pure function of the state, an event and the moment. It touches no process,
// socket, file or clock. So the same function runs a job, goes through random schedules in virtual time
// (tests/virtual_time), and may run on any host.
//
// One folder of small rules: starting.cpp (up to the first stage), loss.cpp (a worker is lost), stall.cpp (nobody goes
// on), resize.cpp (other devices or shares), reclaim.cpp (devices are offered or taken back), scribe.cpp, stop.cpp and
// closing.cpp (the end).

#include <vector>

#include "core/run/decisions/action.h"
#include "core/run/decisions/event.h"
#include "core/run/decisions/state/state.h"

namespace estrain::decisions {

// Changes `state` as if the actions had been carried out, and returns them in the order in which they are to be; those
// that can fail are answered by an event (action.h).
std::vector<Action> decide(State& state, const Event& event, const Moment& now);

}  // namespace estrain::decisions

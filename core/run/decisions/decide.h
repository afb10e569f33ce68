#pragma once
// Decides the launcher's next actions: a pure function of the state, an event and the moment. The function touches no
// process, socket, file or clock. The same function therefore runs a job, follows random schedules in virtual time
// (tests/virtual_time), and may run on any host.
//
// One folder of small rules: starting.cpp (up to the first stage), loss.cpp (a worker is lost, or no worker makes
// progress), resize.cpp (other devices or shares), reclaim.cpp (devices are offered or taken back), scribe.cpp, and
// closing.cpp (stop and end).

#include <vector>

#include "core/run/decisions/action.h"
#include "core/run/decisions/event.h"
#include "core/run/decisions/state/state.h"

namespace estrain::decisions {

// Changes `state` as if the actions had been carried out. Returns the actions in the order of carrying out. An action
// that can fail is answered by an event (action.h).
std::vector<Action> decide(RunState& state, const Event& event, const Moment& now);

}  // namespace estrain::decisions

#pragma once
// Brings jobs from what they hold to what they are to have: starts, grows, shrinks and stops them, and kills those that
// do not let go of devices in time.

#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/planning/dispatch/action.h"
#include "core/planning/dispatch/homes.h"

namespace estrain::dispatch {

struct Settings {
  double round = 10;        // s between decisions at the most
  double within = 30;       // s that a job gets to let go of devices where nobody waits for them
  int64_t retries = 3;      // failures in a row without a step in between
  double first_charge = 3;  // s that a change of devices costs, until one was seen
  double patience = 120;    // s that a launcher gets to answer when it is asked to let go of devices; it is killed then
  double growth_pause = 60;  // s during which a job that declined devices is not offered any
};

inline constexpr double kNoHurry = std::numeric_limits<double>::infinity();

// Devices that somebody waits for.
struct Owed {
  std::vector<SlotId> slots;
  std::vector<std::string> names;
  double asked, within;
  ClientId client;

  double deadline() const { return asked + within; }
};

// Requests to jobs that they have not carried out yet.
struct Underway {
  std::vector<Owed> owed;
  std::set<JobId> killed;                   // for not letting go of devices
  std::map<JobId, double> asked_to_let_go;  // and have not answered; the moment
  // The devices of a job in Phase::changing before the request that it carries out, and after it. Meanwhile the policy
  // may have given the job another target.
  struct Asked {
    Target had, then;
  };
  std::map<JobId, Asked> asked;
};

// Has every job take its next step towards its target, and adds what is to be done to `actions`.
void bring_about(State& state, const Settings& settings, Underway& underway, std::vector<Action>& actions, double now);

// Devices that were asked back, and that nobody holds any more, leave the pool; the client that waits for them is told.
void complete_withdrawals(State& state, Underway& underway, std::vector<Action>& actions, double now);

}  // namespace estrain::dispatch

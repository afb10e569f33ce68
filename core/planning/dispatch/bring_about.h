#pragma once
// Brings jobs from their present devices to their targets: starts, grows, shrinks and stops jobs, and kills each job
// still holding a device after its time to let go.

#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/planning/dispatch/action.h"
#include "core/planning/dispatch/homes.h"

namespace estrain::dispatch {

struct Settings {
  double round = 10;         // s between decisions at the most
  double within = 30;        // s for a job to let go of devices if no client waits for the devices
  int64_t retries = 3;       // failures in a row without a step in between
  double first_charge = 3;   // s, the cost of a change of devices until a change was seen
  double patience = 120;     // s for a launcher to answer a request to let go of devices; then it is killed
  double growth_pause = 60;  // s without an offer after a job has declined devices
};

inline constexpr double kNoHurry = std::numeric_limits<double>::infinity();

// Devices that a client waits for.
struct Owed {
  std::vector<SlotId> slots;
  std::vector<std::string> names;
  double asked, within;
  ClientId client;

  double deadline() const { return asked + within; }
};

// Requests not carried out yet by their jobs.
struct Underway {
  std::vector<Owed> owed;
  std::set<JobId> killed;                   // for not letting go of devices
  std::map<JobId, double> asked_to_let_go;  // the moment of the unanswered request
  // The devices of a job in Phase::changing before the job carries out the request, and after it. Meanwhile the policy
  // may have given the job another target.
  struct Asked {
    Target had, then;
  };
  std::map<JobId, Asked> asked;
};

// Has every job take its next step towards its target, and adds the orders for this to `actions`.
void bring_about(State& state, const Settings& settings, Underway& underway, std::vector<Action>& actions, double now);

// Removes each device from the pool if it was asked back and no job holds it any more, and answers the waiting clients.
void complete_withdrawals(State& state, Underway& underway, std::vector<Action>& actions, double now);

}  // namespace estrain::dispatch

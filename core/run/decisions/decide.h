#pragma once
// Decides the launcher's next actions: a pure function of the state, an event and the moment. The function touches no
// process, socket, file or clock. The same function therefore runs a job, follows random schedules in virtual time
// (tests/virtual_time), and may run on any host.
//
// One folder of small rules: starting.cpp (up to the first stage), loss.cpp (a worker is lost, or no worker makes
// progress), resize.cpp (other devices or shares), reclaim.cpp (devices are offered or taken back), scribe.cpp, and
// closing.cpp (stop and end).

#include <deque>
#include <utility>
#include <vector>

#include "core/run/decisions/action.h"
#include "core/run/decisions/event.h"
#include "core/run/decisions/state/state.h"

namespace estrain::decisions {

// Changes `state` as if the actions had been carried out. Returns the actions in the order of carrying out. An action
// that can fail is answered by an event (action.h).
std::vector<Action> decide(RunState& state, const Event& event, const Moment& now);

// An EventQueue keeps the events that wait for decide(): an event raised while actions are carried out comes last.
class EventQueue {
 public:
  bool is_empty() const { return events_.empty(); }

  // Adds `event`, and calls `handle` for every waiting event in turn. If a call of `handle` is under way, only adds the
  // event: the call of add() that began first handles the event.
  template <typename Handle>
  void add(Event event, Handle&& handle) {
    events_.push_back(std::move(event));
    if (std::exchange(handling_, true)) return;
    while (!events_.empty()) {
      const Event next = std::move(events_.front());
      events_.pop_front();
      handle(next);
    }
    handling_ = false;
  }

 private:
  std::deque<Event> events_;
  bool handling_ = false;
};

}  // namespace estrain::decisions

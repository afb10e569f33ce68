#pragma once
// The dispatcher of a pool's daemon, with the actions still to be carried out.

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/planning/dispatch/dispatcher.h"

namespace estrain::pool {

// A PoolDispatcher hears the events of all parts of the daemon. The daemon takes the actions, and carries these out.
class PoolDispatcher {
 public:
  // Takes up a saved state. Throws as dispatch::Dispatcher.
  PoolDispatcher(dispatch::State state, const dispatch::Settings& settings, double now = wall_seconds())
      : dispatcher_(std::move(state), settings) {
    tell(dispatch::TakenUp{}, now);
  }

  // Throws as dispatch::Dispatcher::on(), and then changes nothing.
  void tell(const dispatch::Event& event, double now = wall_seconds()) {
    std::ranges::move(dispatcher_.on(event, now), std::back_inserter(to_do_));
  }
  // Forgets a job that was just submitted and could not be recorded, with the job's actions.
  void undo_submission(dispatch::JobId id) {
    tell(dispatch::SubmissionUndone{id});
    std::erase_if(to_do_, [&](const dispatch::Action& action) { return dispatch::job_of(action) == id; });
  }
  // Returns the actions to be carried out, in this order.
  std::vector<dispatch::Action> take_actions() { return std::exchange(to_do_, {}); }

  const dispatch::State& state() const { return dispatcher_.state(); }
  // The next TimePassed asks the policy. Before such an event comes a Progressed of each job.
  bool round_is_over(double now) const { return now >= dispatcher_.next_round(); }

 private:
  dispatch::Dispatcher dispatcher_;
  std::vector<dispatch::Action> to_do_;
};

}  // namespace estrain::pool

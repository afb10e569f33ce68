#pragma once
// The dispatcher of a pool's daemon, with the actions still to be carried out.

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/planning/dispatch/dispatcher.h"

namespace estrain::pool {

// A PoolDispatcher hears the events of all parts of the daemon, and finds by the monotonic clock whether the wall clock
// was set forward, or the host slept: nobody has missed a time limit meanwhile. `now`: of the wall clock. The daemon
// takes the actions, and carries these out.
class PoolDispatcher {
 public:
  // Takes up a saved state. Throws as dispatch::Dispatcher.
  PoolDispatcher(dispatch::State state, const dispatch::Settings& settings, double now = wall_seconds(),
                 double monotonic = seconds(monotonic_ns()))
      : last_now_(now), last_monotonic_(monotonic), dispatcher_(std::move(state), settings) {
    tell(dispatch::TakenUp{}, now, monotonic);
  }

  // Throws as dispatch::Dispatcher::on(), and then changes nothing.
  void tell(const dispatch::Event& event, double now = wall_seconds(), double monotonic = seconds(monotonic_ns())) {
    const double ahead =
        (now - std::exchange(last_now_, now)) - (monotonic - std::exchange(last_monotonic_, monotonic));
    if (ahead > kStep) dispatcher_.on(dispatch::ClockSetForward{ahead}, now);
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
  static constexpr double kStep = 1;  // s; less shortens no time limit by much

  double last_now_, last_monotonic_;  // of the last event
  dispatch::Dispatcher dispatcher_;
  std::vector<dispatch::Action> to_do_;
};

}  // namespace estrain::pool

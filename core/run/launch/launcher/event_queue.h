#pragma once
// Events that wait to be decided, one after another. An event that comes up while another one is being decided waits
// for its turn.

#include <deque>
#include <utility>

#include "core/run/decisions/event.h"

namespace estrain::launch {

class EventQueue {
 public:
  bool is_empty() const { return events_.empty(); }

  // Adds an event and calls `decide` for all that wait, unless such a call is under way, which then takes this one,
  // too.
  template <typename Decide>
  void add(decisions::Event event, Decide&& decide) {
    events_.push_back(std::move(event));
    if (std::exchange(deciding_, true)) return;
    while (!events_.empty()) {
      const decisions::Event next = std::move(events_.front());
      events_.pop_front();
      decide(next);
    }
    deciding_ = false;
  }

 private:
  std::deque<decisions::Event> events_;
  bool deciding_ = false;
};

}  // namespace estrain::launch

#pragma once
// An EventQueue keeps events that wait for a decision, one after another. An event raised during a decision comes last.

#include <deque>
#include <utility>

#include "core/run/decisions/event.h"

namespace estrain::decisions {

class EventQueue {
 public:
  bool is_empty() const { return events_.empty(); }

  // Adds an event and calls `decide` for all waiting events. A call of `decide` under way takes this event as
  // well.
  template <typename Decide>
  void add(Event event, Decide&& decide) {
    events_.push_back(std::move(event));
    if (std::exchange(deciding_, true)) return;
    while (!events_.empty()) {
      const Event next = std::move(events_.front());
      events_.pop_front();
      decide(next);
    }
    deciding_ = false;
  }

 private:
  std::deque<Event> events_;
  bool deciding_ = false;
};

}  // namespace estrain::decisions

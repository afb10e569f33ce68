#pragma once
// A log of a Dispatcher's decisions: a line of JSON for each event, with the actions and their reasons. Whoever tells a
// dispatcher its events may keep a log; the dispatcher knows nothing of the log.
//
//   {"policy": "estrain", "seed": 1}   the first line
//   {"now": 1003.5, "event": {"is": "training_began", "job": 1}, "actions": [{"is": "note", …}, …]}

#include <optional>
#include <string>
#include <vector>

#include "core/planning/dispatch/action.h"
#include "core/planning/dispatch/event.h"

namespace estrain::dispatch {

class DecisionLog {
 public:
  // Of a dispatcher that begins with an empty pool.
  DecisionLog(const std::string& policy, uint64_t seed);

  void add(const Event& event, double now, const std::vector<Action>& actions);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Tells the events of a log to a new dispatcher with the log's policy and seed. `settings`: of the log's dispatcher.
// Returns the first line of the log that differs from the new dispatcher's line; nothing: all actions are equal. Throws
// Fault::corrupt for a line that is not JSON, Fault::usage for an unknown event.
std::optional<std::string> first_difference(const std::string& log, const Settings& settings);

}  // namespace estrain::dispatch

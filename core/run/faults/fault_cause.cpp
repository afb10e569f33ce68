#include "core/run/faults/fault_cause.h"

#include <fmt/ranges.h>

#include "core/base/process/child_process.h"

namespace estrain::faults {
namespace {

constexpr size_t most_patterns_shown = 3;

std::string one_of(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " or ")); }

std::string words_of_text(const std::vector<LinePattern>& patterns) {
  std::vector<std::string> shown;
  for (const LinePattern& pattern : patterns) {
    if (shown.size() == most_patterns_shown) {
      shown.emplace_back("…");
      break;
    }
    shown.push_back("`" + pattern.text() + "`");
  }
  return fmt::format("{}", fmt::join(shown, ", "));
}

std::string words_of_faults(const std::vector<Fault>& faults) {
  std::vector<std::string> names;
  for (const Fault fault : faults) names.push_back(fmt::format("`{}`", fault_name(fault)));
  return "a reported " + one_of(names) + " error";
}

std::string words_of_signals(const std::vector<int>& signals) {
  std::vector<std::string> names;
  for (const int number : signals) names.push_back(signal_name(number));
  return one_of(names);
}

}  // namespace

std::string_view class_name(FaultClass fault_class) {
  switch (fault_class) {
    case FaultClass::user:
      return "user";
    case FaultClass::infrastructure:
      return "infrastructure";
    case FaultClass::engine:
      return "engine";
  }
  return "engine";
}

std::string Signature::words() const {
  std::vector<std::string> conditions;
  if (hung) conditions.emplace_back("no progress");
  if (oom) conditions.emplace_back("an OOM kill");
  if (named) {
    conditions.push_back((faults.empty() ? "an error or a line" : words_of_faults(faults)) + " that names the cause");
  } else if (!faults.empty()) {
    conditions.push_back(words_of_faults(faults));
  }
  if (!signals.empty()) conditions.push_back(words_of_signals(signals));
  if (!exit_statuses.empty()) conditions.push_back(fmt::format("exit status {}", fmt::join(exit_statuses, " or ")));
  if (!text.empty()) conditions.push_back((faults.empty() ? "a line with " : "the words ") + words_of_text(text));
  return fmt::format("{}", fmt::join(conditions, " and "));
}

}  // namespace estrain::faults

#include "core/planning/dispatch/trace/decision_log.h"

#include <sstream>

#include "core/base/json/codec.h"
#include "core/base/json/json_text.h"
#include "core/planning/dispatch/dispatcher.h"

namespace estrain::dispatch {
namespace {

std::string line_of(const Event& event, double now, const std::vector<Action>& actions) {
  return json_text({{"now", now}, {"event", codec::encode(event)}, {"actions", codec::to_field(actions)}});
}

}  // namespace

DecisionLog::DecisionLog(const std::string& policy, uint64_t seed)
    : text_(json_text({{"policy", policy}, {"seed", seed}}) + "\n") {}

void DecisionLog::add(const Event& event, double now, const std::vector<Action>& actions) {
  text_ += line_of(event, now, actions) + "\n";
}

std::optional<std::string> first_difference(const std::string& log, const Settings& settings) {
  std::istringstream lines(log);
  std::string line;
  std::getline(lines, line);
  const Json begin = parse_json(line, "the log");
  State state;
  state.policy = begin.at("policy").get<std::string>();
  state.seed = begin.at("seed").get<uint64_t>();
  Dispatcher dispatcher(std::move(state), settings);
  while (std::getline(lines, line)) {
    const Json entry = parse_json(line, "the log");
    const auto event = codec::decode<Event>(entry.at("event"));
    const double now = entry.at("now").get<double>();
    if (line_of(event, now, dispatcher.on(event, now)) != line) return line;
  }
  return std::nullopt;
}

}  // namespace estrain::dispatch

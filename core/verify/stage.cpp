#include "core/verify/stage.h"

#include <fmt/format.h>

#include "core/base/json.h"

namespace estrain::verify {
namespace {

std::string describe(const Json& line) {
  std::string devices;
  for (const Json& device : line.value("devices", Json::array()))
    if (device.is_string()) devices += (devices.empty() ? "" : ",") + device.get<std::string>();
  const auto workers = line.value("workers", INT64_C(0));
  return fmt::format("{} ({} worker{})", devices, workers, workers == 1 ? "" : "s");
}

void add(const Json& line, std::vector<Stage>& stages) {
  if (!line.is_object() || line.value("event", "") != "stage" || !line.contains("step")) return;
  const Step from(line.at("step").get<int64_t>());
  while (!stages.empty() && stages.back().from >= from) stages.pop_back();
  stages.push_back({from, describe(line)});
}

}  // namespace

std::vector<Stage> stages_from_events(std::string_view events) {
  std::vector<Stage> stages;
  for (size_t end; (end = events.find('\n')) != events.npos; events.remove_prefix(end + 1)) {
    if (events.substr(0, end).find("\"stage\"") == events.npos) continue;
    add(Json::parse(events.substr(0, end), nullptr, false), stages);
  }
  return stages;
}

std::vector<Stage> stages_from_list(std::string_view json) {
  std::vector<Stage> stages;
  const Json list = Json::parse(json, nullptr, false);
  if (list.is_array())
    for (const Json& line : list) add(line, stages);
  return stages;
}

const Stage* stage_of(const std::vector<Stage>& stages, Step step) {
  const Stage* found = nullptr;
  for (const Stage& stage : stages)
    if (stage.from < step || found == nullptr) found = &stage;
  return found;
}

}  // namespace estrain::verify

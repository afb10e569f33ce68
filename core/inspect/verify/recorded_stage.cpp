#include "core/inspect/verify/recorded_stage.h"

#include <fmt/format.h>

#include "core/base/json/json_fields.h"

namespace estrain::verify {
namespace {

std::string describe(const Json& line) {
  std::string devices;
  for (const Json& device : list_in(line, "devices"))
    if (const auto kind = as_text(device)) devices += (devices.empty() ? "" : ",") + *kind;
  const auto workers = whole_in(line, "workers").value_or(0);
  return fmt::format("{} ({} worker{})", devices, workers, workers == 1 ? "" : "s");
}

// Returns the text for a stage, or for the stages left out of a checkpoint.
std::string stage_text(const Json& line) {
  const std::string event = text_in(line, "event").value_or("");
  if (event == "stage") return describe(line);
  if (event == "stages_left_out")
    return fmt::format("one of {} stages that the checkpoint leaves out", whole_in(line, "count").value_or(0));
  return "";
}

void add(const Json& line, std::vector<RecordedStage>& stages) {
  const std::string text = stage_text(line);
  const auto step = whole_in(line, "step");
  if (text.empty() || !step) return;
  const Step from(*step);
  while (!stages.empty() && stages.back().from >= from) stages.pop_back();
  stages.push_back({from, text});
}

}  // namespace

std::vector<RecordedStage> stages_from_events(std::string_view events) {
  std::vector<RecordedStage> stages;
  for (size_t end; (end = events.find('\n')) != events.npos; events.remove_prefix(end + 1)) {
    if (events.substr(0, end).find("\"stage\"") == events.npos) continue;
    add(parse_json_if_sound(events.substr(0, end)), stages);
  }
  return stages;
}

std::vector<RecordedStage> stages_from_list(std::string_view json) {
  std::vector<RecordedStage> stages;
  const Json list = parse_json_if_sound(json);
  if (list.is_array())
    for (const Json& line : list) add(line, stages);
  return stages;
}

const RecordedStage* stage_of(const std::vector<RecordedStage>& stages, Step step) {
  const RecordedStage* found = nullptr;
  for (const RecordedStage& stage : stages)
    if (stage.from < step || found == nullptr) found = &stage;
  return found;
}

}  // namespace estrain::verify

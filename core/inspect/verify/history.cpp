#include "core/inspect/verify/history.h"

#include <fmt/format.h>

#include <vector>

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

// The changes in effect for steps up to `last`. An unparsable line is also an entry: a string.
std::vector<Json> entries_until(std::string_view log, Step last) {
  std::vector<Json> entries;
  for (size_t end; (end = log.find('\n')) != log.npos; log.remove_prefix(end + 1)) {
    Json entry = parse_json_if_sound(log.substr(0, end));
    if (!entry.is_object()) {
      entries.emplace_back(std::string(log.substr(0, end)));
      continue;
    }
    if (whole_in(entry, "step").value_or(0) <= last.value) entries.push_back(std::move(entry));
  }
  return entries;
}

std::string text_of(const Json& entry) {
  return entry.is_string() ? entry.get<std::string>() : entry.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Removes the time of the change and the path of the file.
std::vector<std::string> comparable(std::vector<Json> entries) {
  std::vector<std::string> texts;
  for (Json& entry : entries) {
    if (entry.is_object())
      for (const char* key : {"time", "path", "words"}) entry.erase(key);
    texts.push_back(text_of(entry));
  }
  return texts;
}

std::string in_words(const Json& entry) {
  const auto kind = text_in(entry, "change"), words = text_in(entry, "words");
  const auto step = whole_in(entry, "step");
  if (!step || !words || (kind != "data" && kind != "batch" && kind != "schedule"))
    return "a change of the job: " + text_of(entry);
  return fmt::format("after step {} on {}{}", *step, kind == "data" ? "other, accepted data: " : "", *words);
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

std::string change_log_difference(std::string_view a, std::string_view b, Step last) {
  const std::vector<std::string> of_a = comparable(entries_until(a, last)), of_b = comparable(entries_until(b, last));
  size_t same = 0;
  while (same < of_a.size() && same < of_b.size() && of_a[same] == of_b[same]) ++same;
  if (same == of_a.size() && same == of_b.size()) return "";
  const auto entry = [&](const std::vector<std::string>& entries) {
    return same < entries.size() ? entries[same] : std::string("none");
  };
  return fmt::format("the change logs differ in entry {}: A: {}, B: {}", same + 1, entry(of_a), entry(of_b));
}

std::vector<std::string> changes_in_words(std::string_view log, Step last) {
  std::vector<std::string> words;
  for (const Json& entry : entries_until(log, last)) words.push_back(in_words(entry));
  return words;
}

}  // namespace estrain::verify

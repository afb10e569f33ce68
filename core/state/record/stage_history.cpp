#include "core/state/record/stage_history.h"

#include <algorithm>
#include <filesystem>

#include "core/base/files/long_files.h"
#include "core/base/json/json_fields.h"

namespace estrain::record {
namespace {

std::string device_list(const Json& stage) {
  std::string devices;
  for (const Json& device : list_in(stage, "devices"))
    if (const auto kind = as_text(device)) devices += (devices.empty() ? "" : ",") + *kind;
  std::erase(devices, '\0');  // strings of HDF5 attributes cannot have a zero byte
  return devices;
}

}  // namespace

void StageHistory::follow() {
  std::error_code absent;
  const uint64_t size = std::filesystem::file_size(path_, absent);
  if (!absent && size < read_) *this = StageHistory(path_);  // another file
  LineReader lines(path_, read_);
  for (std::string_view line; lines.next(&line);) {
    if (line.find("\"stage\"") == line.npos) continue;
    const Json event = parse_json_if_sound(line);
    if (text_in(event, "event") == "stage") add(event);
  }
  read_ = lines.end();
}

void StageHistory::add(const Json& stage) {
  devices_ = device_list(stage);
  std::string text = stage.dump();
  if (text.size() > kMostBytes) return;
  if (newest_.empty() && first_.size() < kFirst && text.size() <= kMostBytes / kFirst)
    return first_.push_back(std::move(text));
  bytes_ += text.size();
  newest_.push_back(std::move(text));
  steps_.push_back(whole_in(stage, "step").value_or(0));
  while (newest_.size() > kNewest || bytes_ > kMostBytes) leave_out_oldest();
}

void StageHistory::leave_out_oldest() {
  if (left_out_++ == 0) left_out_step_ = steps_.front();
  bytes_ -= newest_.front().size();
  newest_.pop_front();
  steps_.pop_front();
}

std::string StageHistory::to_json() const {
  std::string text;
  const auto put = [&](const std::string& entry) { text += (text.empty() ? "" : ",") + entry; };
  for (const std::string& stage : first_) put(stage);
  if (left_out_ > 0) put(Json{{"event", "stages_left_out"}, {"count", left_out_}, {"step", left_out_step_}}.dump());
  for (const std::string& stage : newest_) put(stage);
  return "[" + text + "]";
}

}  // namespace estrain::record

#include "core/run/launch/preflight/resumed.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "core/base/clock.h"
#include "core/base/json/json.h"
#include "core/base/json/json_fields.h"
#include "core/base/json/json_lines.h"
#include "core/data/format_table.h"
#include "core/data/job_data.h"
#include "core/job/spec/defaults.h"
#include "core/job/spec/enum_names.h"
#include "core/job/spec/keys/keys.h"

namespace estrain::launch {
namespace {

Json content_of(const std::optional<data::FileIdentity>& file) {
  if (!file) return nullptr;
  return {{"size", file->size}, {"sampled", file->sampled}, {"whole", file->whole ? Json(*file->whole) : Json()}};
}

std::vector<data::DataChange> changes_among(const data::DataIdentity& identity,
                                            const std::vector<data::FileName>& names) {
  return with_context("data", [&]() -> std::vector<data::DataChange> {
    if (data::is_untouched(identity, names)) return {};
    return data::recognize(identity, data::open_files(names)).changes;
  });
}

constexpr std::string_view kScheduleTable = "schedule";

bool may_change(const std::string& key) {
  return key.starts_with("schedule.") && key != "schedule.name" && key != "schedule.metric";
}

std::string value_of(const std::string& key, const spec::JobSpec& spec) {
  return spec::find_key(key)->write(spec).value_or("not set");
}

}  // namespace

std::vector<data::DataChange> changes_since(const std::string& known, const spec::DataSection& section) {
  return changes_among(data::DataIdentity::from_json(known),
                       with_context("data", [&] { return data::file_names(section); }));
}

std::vector<data::DataChange> changes_since(const std::string& known, const spec::JobSpec& spec) {
  data::DataIdentity identity = data::DataIdentity::from_json(known);
  std::erase_if(identity.files, [](const data::FileIdentity& file) { return !file.samples.empty(); });
  std::vector<data::FileName> names = data::job_file_names(spec);
  const auto is_code = [](const auto& file) { return file.what == data::metrics_code_file; };  // may come and go
  if (std::ranges::none_of(names, is_code)) std::erase_if(identity.files, is_code);
  if (std::ranges::none_of(identity.files, is_code)) std::erase_if(names, is_code);
  std::ranges::copy(data::modules_in(spec, identity), std::back_inserter(names));
  return changes_among(identity, names);
}

std::string change_log_lines(const std::vector<data::DataChange>& changes, Step step) {
  std::string lines;
  for (const data::DataChange& change : changes) {
    const data::FileIdentity& file = change.is ? *change.is : *change.was;
    const Json line = {{"time", utc_timestamp()},
                       {"change", "data"},
                       {"step", step.value},
                       {"what", file.what},
                       {"was", content_of(change.was)},
                       {"is", content_of(change.is)},
                       {"path", file.path},
                       {"words", change.in_words()}};
    lines += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  return lines;
}

ScheduleChange::ScheduleChange(const spec::JobSpec& before, const spec::JobSpec& after,
                               const std::vector<std::string>& changed, Step step)
    : step_(step) {
  const spec::JobSpec was = spec::with_defaults(before), is = spec::with_defaults(after);
  for (const std::string& key : changed) {
    if (may_change(key)) {
      values_.push_back({key, value_of(key, was), value_of(key, is)});
    } else {
      others_.push_back(key);
    }
  }
}

bool ScheduleChange::is_asked_for(const std::vector<std::string>& overrides) const {
  const auto sets = [&](std::string_view key) {
    return std::ranges::any_of(overrides,
                               [&](const std::string& text) { return text.starts_with(fmt::format("{}=", key)); });
  };
  return sets(kScheduleTable) || std::ranges::all_of(values_, sets, &Values::key);
}

bool ScheduleChange::is_in(std::string_view log) const {
  std::map<std::string, std::string> recorded;
  for (size_t end; (end = log.find('\n')) != log.npos; log.remove_prefix(end + 1)) {
    const Json entry = parse_json_if_sound(log.substr(0, end));
    if (!entry.is_object() || text_in(entry, "change") != kScheduleTable) continue;
    if (whole_in(entry, "step").value_or(-1) < step_.value || !entry.contains("is") || !entry.at("is").is_object())
      continue;
    for (const auto& [key, value] : entry.at("is").items())
      if (const auto text = as_text(value)) recorded[key] = *text;
  }
  return std::ranges::all_of(values_, [&](const Values& value) {
    const auto found = recorded.find(value.key);
    return found != recorded.end() && found->second == value.is;
  });
}

std::string ScheduleChange::line() const {
  Json json = {{"time", utc_timestamp()}, {"change", kScheduleTable}, {"step", step_.value},
               {"was", Json::object()},   {"is", Json::object()},     {"words", in_words()}};
  for (const auto& [key, was, is] : values_) {
    json["was"][key] = was;
    json["is"][key] = is;
  }
  return json.dump() + "\n";
}

std::string ScheduleChange::in_words() const {
  std::vector<std::string> words;
  for (const auto& [key, was, is] : values_) words.push_back(fmt::format("{} = {} instead of {}", key, is, was));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string ScheduleChange::as_words_of_command() const {
  std::vector<std::string> words;
  for (const auto& [key, was, is] : values_) words.push_back(fmt::format("--set {}={}", key, is));
  return fmt::format("{}", fmt::join(words, " "));
}

std::string words_of_longer_run(const spec::ScheduleSection& schedule) {
  const auto after = [&](int64_t units, std::string_view what) {
    return fmt::format("after {} {}{} {}", units, spec::to_string(schedule.unit), units == 1 ? "" : "s", what);
  };
  const int64_t end = schedule.warmup + schedule.period;
  switch (schedule.name) {
    case spec::ScheduleKind::cosine:
      return after(end, "the rate rises again, as torch's CosineAnnealingLR");
    case spec::ScheduleKind::linear:
      return after(end, "the rate stays at the last factor");
    case spec::ScheduleKind::polynomial:
      return after(end, "the rate stays 0");
    case spec::ScheduleKind::onecycle:
      return after(schedule.period, "the cycle ends, and no step follows; a longer cycle: --set schedule.period=…");
    case spec::ScheduleKind::wsd:
      return after(end + schedule.decay, "the rate stays at schedule.min_factor");
    case spec::ScheduleKind::table:
      return after(schedule.warmup + schedule.points.back(), "the rate stays at the last factor");
    default:
      return "";
  }
}

}  // namespace estrain::launch

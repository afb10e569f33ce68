#include "core/pool/failures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "core/base/visible_text.h"

namespace estrain::pool {
namespace {

using dispatch::JobEnd;
using dispatch::Outcome;

constexpr size_t kFilesShown = 5;
constexpr std::array<const char*, 3> kDemands = {"1", "2-4", "5+"};

double part_of(double value, double all) { return all > 0 ? value / all : 0; }

// Table 6. Device-seconds of a job that is tried again count with the status that the job has at last.
struct StatusRow {
  int64_t jobs = 0;
  double device_seconds = 0;
};

Json status_row(const std::string& name, const StatusRow& row, const StatusRow& all) {
  return {{"status", name},
          {"jobs", row.jobs},
          {"jobs_part", part_of(static_cast<double>(row.jobs), static_cast<double>(all.jobs))},
          {"device_seconds", row.device_seconds},
          {"device_seconds_part", part_of(row.device_seconds, all.device_seconds)}};
}

Json statuses_json(const std::vector<JobEnd>& ends) {
  std::map<Outcome, StatusRow> rows;
  StatusRow all;
  std::map<int64_t, double> used;
  for (const JobEnd& end : ends) {
    used[end.job] += end.device_seconds;
    if (end.outcome == Outcome::retried) continue;
    for (StatusRow* row : {&rows[end.outcome], &all}) {
      ++row->jobs;
      row->device_seconds += used[end.job];
    }
  }
  Json statuses = Json::array();
  for (const Outcome outcome : {Outcome::passed, Outcome::killed, Outcome::unsuccessful})
    statuses.push_back(status_row(std::string(outcome_name(outcome)), rows[outcome], all));
  statuses.push_back(status_row("total", all, all));
  return statuses;
}

// Table 7.
struct CauseRow {
  std::string fault_class;
  int64_t trials = 0;
  std::set<int64_t> jobs;
  std::set<std::string> users;
  std::vector<double> seconds;  // of trials with devices
  double all_seconds = 0, device_seconds = 0;
  std::array<int64_t, kDemands.size()> trials_on = {};
  std::vector<std::string> files;  // newest first

  void add(const JobEnd& end) {
    fault_class = end.fault_class;
    ++trials;
    jobs.insert(end.job);
    users.insert(end.user);
    all_seconds += end.seconds;
    device_seconds += end.device_seconds;
    if (end.devices > 0) {
      seconds.push_back(end.seconds);
      ++trials_on[end.devices == 1 ? 0 : end.devices <= 4 ? 1 : 2];
    }
    for (const std::string& file : end.files) {
      std::erase(files, file);
      files.insert(files.begin(), file);
    }
    if (files.size() > kFilesShown) files.resize(kFilesShown);
  }
};

double percentile(std::vector<double>& sorted, double percent) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<size_t>(std::ceil(percent / 100 * static_cast<double>(sorted.size())));
  return sorted[std::max<size_t>(rank, 1) - 1];
}

Json cause_json(const std::string& cause, CauseRow row, double all_seconds, double all_device_seconds) {
  std::ranges::sort(row.seconds);
  Json trials_on;
  for (size_t i = 0; i < kDemands.size(); ++i) trials_on[kDemands[i]] = row.trials_on[i];
  return {{"cause", cause},
          {"class", row.fault_class},
          {"trials", row.trials},
          {"jobs", row.jobs.size()},
          {"users", row.users.size()},
          {"seconds",
           {{"median", percentile(row.seconds, 50)},
            {"p90", percentile(row.seconds, 90)},
            {"p95", percentile(row.seconds, 95)},
            {"total", row.all_seconds},
            {"part", part_of(row.all_seconds, all_seconds)}}},
          {"trials_on", trials_on},
          {"device_seconds", row.device_seconds},
          {"device_seconds_part", part_of(row.device_seconds, all_device_seconds)},
          {"files", row.files}};
}

Json causes_json(const std::vector<JobEnd>& ends) {
  std::map<std::string, CauseRow> rows;
  double seconds = 0, device_seconds = 0;
  for (const JobEnd& end : ends) {
    if (end.cause.empty()) continue;
    rows[end.cause].add(end);
    seconds += end.seconds;
    device_seconds += end.device_seconds;
  }
  std::vector<const std::pair<const std::string, CauseRow>*> sorted;
  for (const auto& row : rows) sorted.push_back(&row);
  std::ranges::stable_sort(sorted, std::greater<>(), [](const auto* row) { return row->second.trials; });
  Json causes = Json::array();
  for (const auto* row : sorted) causes.push_back(cause_json(row->first, row->second, seconds, device_seconds));
  return causes;
}

std::string with_part(const Json& row, const char* key, const char* part) {
  return fmt::format("{:.0f} ({:.1f} %)", row.at(key).get<double>(), 100 * row.at(part).get<double>());
}

std::string text_of_cause(const Json& row) {
  const Json &seconds = row.at("seconds"), &on = row.at("trials_on");
  return fmt::format(
      "{:<24} {:<15} {:>6} {:>5} {:>5}  {:>8.1f} {:>8.1f} {:>8.1f} {:>6.1f} %  {:>4} {:>4} {:>4}  {:>18}\n",
      visible_in_line(row.at("cause").get<std::string>()), visible_in_line(row.at("class").get<std::string>()),
      row.at("trials").get<int64_t>(), row.at("jobs").get<int64_t>(), row.at("users").get<int64_t>(),
      seconds.at("median").get<double>(), seconds.at("p90").get<double>(), seconds.at("p95").get<double>(),
      100 * seconds.at("part").get<double>(), on.at("1").get<int64_t>(), on.at("2-4").get<int64_t>(),
      on.at("5+").get<int64_t>(), with_part(row, "device_seconds", "device_seconds_part"));
}

}  // namespace

Json failures_json(const std::vector<JobEnd>& ends) {
  return {{"statuses", statuses_json(ends)}, {"causes", causes_json(ends)}};
}

std::string format_failures(const Json& failures) {
  std::string text = fmt::format("{:<14} {:>16}  {:>24}\n", "status", "jobs", "device-seconds");
  for (const Json& row : failures.at("statuses")) {
    text += fmt::format("{:<14} {:>16}  {:>24}\n", row.at("status").get<std::string>(),
                        with_part(row, "jobs", "jobs_part"), with_part(row, "device_seconds", "device_seconds_part"));
  }
  if (failures.at("causes").empty()) return text + "\nno job has failed\n";
  text += fmt::format("\n{:<24} {:<15} {:>6} {:>5} {:>5}  {:^35}  {:^14}\n", "", "", "", "", "",
                      "seconds to the failure", "on devices");
  text += fmt::format("{:<24} {:<15} {:>6} {:>5} {:>5}  {:>8} {:>8} {:>8} {:>8}  {:>4} {:>4} {:>4}  {:>18}\n", "cause",
                      "class", "trials", "jobs", "users", "median", "90 %", "95 %", "of all", "1", "2-4", "5+",
                      "device-seconds");
  for (const Json& row : failures.at("causes")) text += text_of_cause(row);
  for (const Json& row : failures.at("causes")) {
    for (const Json& file : row.at("files"))
      text += fmt::format("file           {}: {}\n", visible_in_line(row.at("cause").get<std::string>()),
                          visible_in_line(file.get<std::string>()));
  }
  return text;
}

}  // namespace estrain::pool

#include "core/planning/dispatch/ends/ends.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/json/codec.h"

namespace estrain::dispatch {
namespace {

constexpr std::array<std::string_view, 4> kOutcomeNames = {"passed", "killed", "unsuccessful", "retried"};

constexpr std::array<std::string_view, 2> kBlameTheFile = {"incorrect_inputs", "data_file_shortened"};

bool reads(const std::string& input, const std::string& path) {
  if (!path.starts_with(input)) return false;
  return path.size() == input.size() || input.ends_with('/') || path[input.size()] == '/';
}

bool reads_one_of(const std::vector<std::string>& inputs, const std::string& path) {
  return std::ranges::any_of(inputs, [&](const std::string& input) { return !input.empty() && reads(input, path); });
}

template <typename Trouble>
void add_newest(std::vector<Trouble>& all, Trouble trouble) {
  all.push_back(std::move(trouble));
  if (all.size() > Troubles::kMost) all.erase(all.begin());
}

Obstacle obstacle_of(const UserFailures& one) {
  return {"cause " + one.cause,
          fmt::format("{} jobs of {} failed by {} and none was done since, the last was job {}: mend the cause, then "
                      "`estrain pool release` lets this job start",
                      one.jobs, one.user, one.cause, one.last)};
}

Obstacle obstacle_of(const DamagedFile& one) {
  return {"file " + one.path,
          fmt::format("job {} failed by {} in {}: mend the file, then `estrain pool release` lets this job start",
                      one.job, one.cause, one.path)};
}

}  // namespace

std::string_view outcome_name(Outcome outcome) { return kOutcomeNames[static_cast<size_t>(outcome)]; }

Json to_field(Outcome outcome) { return outcome_name(outcome); }

void from_field(const Json& json, Outcome& outcome) {
  const auto* const at = std::ranges::find(kOutcomeNames, json);
  if (at == kOutcomeNames.end()) codec::refuse_message("not an outcome of a job");
  outcome = static_cast<Outcome>(at - kOutcomeNames.begin());
}

void Troubles::failed(const std::string& user, const std::string& cause, int64_t job, double now) {
  UserFailures failures{user, cause, 0, 0, 0};
  std::erase_if(failures_, [&](const UserFailures& one) {
    const bool is_it = one.user == user && one.cause == cause;
    if (is_it) failures = one;
    return is_it;
  });
  ++failures.jobs;
  failures.last = job;
  failures.at = now;
  add_newest(failures_, std::move(failures));
}

void Troubles::damaged(const std::string& path, const std::string& cause, int64_t job, double now) {
  if (std::ranges::find(kBlameTheFile, cause) == kBlameTheFile.end()) return;
  std::erase_if(files_, [&](const DamagedFile& one) { return one.path == path; });
  add_newest(files_, {path, cause, job, now});
}

void Troubles::done(const std::string& user, const std::vector<std::string>& inputs, double started) {
  std::erase_if(failures_, [&](const UserFailures& one) { return one.user == user; });
  std::erase_if(files_, [&](const DamagedFile& one) { return one.at <= started && reads_one_of(inputs, one.path); });
}

void Troubles::forget_old(double now) {
  const auto is_old = [&](const auto& one) { return one.at + kMemory <= now; };
  std::erase_if(failures_, is_old);
  std::erase_if(files_, is_old);
}

std::vector<Obstacle> Troubles::in_the_way_of(const std::string& user, const std::vector<std::string>& inputs,
                                              int64_t failures) const {
  std::vector<Obstacle> all;
  for (const DamagedFile& one : files_) {
    if (reads_one_of(inputs, one.path)) all.push_back(obstacle_of(one));
  }
  for (const UserFailures& one : failures_) {
    if (one.user == user && one.jobs >= failures) all.push_back(obstacle_of(one));
  }
  return all;
}

}  // namespace estrain::dispatch

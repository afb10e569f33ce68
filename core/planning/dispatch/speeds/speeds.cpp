#include "core/planning/dispatch/speeds/speeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "core/planning/plan/search/fleet.h"

namespace estrain::dispatch {
namespace {

constexpr double kSame = 1e-3;  // s between two moments taken as the same

bool is_time(double seconds) { return seconds > 0 && std::isfinite(seconds); }

// Reads text_of() back.
DeviceSet devices_of(const JobSpeeds::DevicesKey& key) {
  DeviceSet devices;
  std::string_view rest = key.type;
  if (rest.find('*') == rest.npos) return {{key.type, key.devices}};
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find('+'));
    const size_t star = std::min(one.find('*'), one.size() - 1);
    std::from_chars(one.data() + star + 1, one.data() + one.size(), devices[std::string(one.substr(0, star))]);
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
  }
  return devices;
}

}  // namespace

int64_t most_ests(int64_t ests, int64_t devices) { return (ests + devices - 1) / devices; }

double apart(int64_t one, int64_t other) {
  return std::abs(std::log(static_cast<double>(one) / static_cast<double>(other)));
}

std::pair<double, double> apart(const JobSpeeds::DevicesKey& one, const JobSpeeds::DevicesKey& other) {
  return {apart(one.hosts, other.hosts), apart(one.devices, other.devices)};
}

std::string text_of(const DeviceSet& devices) {
  if (devices.size() == 1) return devices.begin()->first;
  std::string text;
  for (const auto& [type, count] : devices) text += fmt::format("{}{}*{}", text.empty() ? "" : "+", type, count);
  return text;
}

JobSpeeds::DevicesKey JobSpeeds::key_of(const DeviceSet& devices, int64_t hosts) {
  int64_t all = 0;
  for (const auto& [type, count] : devices) all += count;
  return {text_of(devices), all, hosts};
}

void JobSpeeds::observe(Measured& measured, double seconds) {
  measured.seconds = measured.times == 0 ? seconds : (1 - kNewest) * measured.seconds + kNewest * seconds;
  ++measured.times;
}

void JobSpeeds::observe(const DevicesKey& key, double step_seconds) {
  if (is_time(step_seconds) && key.devices >= 1) observe(measured_[key], step_seconds);
}

void JobSpeeds::observe_mini_batch(const std::string& type, double seconds) {
  if (is_time(seconds)) observe(mini_batches_[type], seconds);
}

void JobSpeeds::expect_on(const std::string& type, double mini_batch_seconds) {
  if (is_time(mini_batch_seconds)) guesses_[type] = mini_batch_seconds;
}

double JobSpeeds::mini_batch(const std::string& type) const {
  if (const auto own = mini_batches_.find(type); own != mini_batches_.end()) return own->second.seconds;
  const auto guess = guesses_.find(type);
  const std::pair<const std::string, Measured>* known = nullptr;  // the type that was measured most often
  for (const auto& entry : mini_batches_) {
    const bool tells = guess == guesses_.end() || guesses_.contains(entry.first);
    if (tells && (known == nullptr || entry.second.times > known->second.times)) known = &entry;
  }
  if (guess != guesses_.end())
    return known == nullptr ? guess->second : guess->second * known->second.seconds / guesses_.at(known->first);
  if (mini_batch_ > 0) return mini_batch_;
  return known == nullptr ? kUnknownMiniBatch : known->second.seconds;
}

// Returns the time in which the devices do all mini-batches, each device as fast as by itself.
double JobSpeeds::pace(const DevicesKey& key, int64_t ests) const {
  const DeviceSet devices = devices_of(key);
  if (devices.size() == 1) return static_cast<double>(most_ests(ests, key.devices)) * mini_batch(key.type);
  std::vector<plan::DeviceGroup> groups;
  std::vector<int64_t> chosen;
  for (const auto& [type, count] : devices) {
    chosen.push_back(std::ssize(groups));
    groups.push_back({.kind = type, .count = count, .mini_batches_per_second = 1 / mini_batch(type)});
  }
  plan::PlannedJob job;
  job.ests = ests;
  job.one_kind = false;
  const plan::Fleet fleet(groups, chosen, job);
  double shortest = std::numeric_limits<double>::infinity();
  for (int64_t workers = fleet.fewest_workers(); workers <= fleet.most_workers(); ++workers)
    shortest = std::min(shortest, fleet.shortest_pace(workers));
  return shortest;
}

// Returns how many times its pace the nearest measured step took, where workers have measured all of its types.
double JobSpeeds::over_pace(const DevicesKey& key, int64_t ests) const {
  double times = 1;
  std::optional<std::pair<double, double>> distance;
  for (const auto& [at, measured] : measured_) {
    const auto is_known = [&](const auto& entry) { return mini_batches_.contains(entry.first); };
    const std::pair away = apart(at, key);
    if (at.hosts > key.hosts || (distance && away >= *distance) || !std::ranges::all_of(devices_of(at), is_known))
      continue;
    distance = away;
    times = measured.seconds / pace(at, ests);
  }
  return times;
}

void JobSpeeds::saw(const Look& look, double now) {
  if (!(look.steps > 0) || !(look.seconds > 0) || look.devices < 1) return;
  Seen& seen = seen_[{look.type, look.devices, std::lround(look.in_use)}];
  seen.steps += look.steps;
  seen.seconds += look.seconds;
  const double from = now - look.seconds;
  const auto goes_on = [&](const Pace& last) {
    return last.type == look.type && last.devices == look.devices &&
           std::lround(last.in_use) == std::lround(look.in_use) && std::abs(from - last.to) < kSame &&
           last.to - last.from < kCoarsest * (now - paces_[0].from);
  };
  if (paces_.newest() == nullptr || !goes_on(*paces_.newest()))
    paces_.add({look.type, look.devices, look.in_use, from, from, 0, 0});
  Pace& pace = *paces_.newest();
  pace.in_use += (look.in_use - pace.in_use) * look.seconds / (now - pace.from);
  pace.to = now;
  pace.steps += look.steps;
  if (look.told > 0) pace.told = look.told;
}

void JobSpeeds::Paces::add(const Pace& pace) {
  if (newest_) {
    if (!closed_) {
      closed_ = std::make_shared<std::vector<Pace>>();
    } else if (closed_.use_count() > 1) {
      closed_ = std::make_shared<std::vector<Pace>>(*closed_);
    }
    closed_->push_back(*newest_);
  }
  newest_ = pace;
}

std::vector<JobSpeeds::Pace> JobSpeeds::Paces::all() const {
  std::vector<Pace> all;
  for (size_t at = 0; at < size(); ++at) all.push_back((*this)[at]);
  return all;
}

bool JobSpeeds::Paces::operator==(const Paces& other) const {
  if (newest_ != other.newest_ || num_closed() != other.num_closed()) return false;
  return closed_ == other.closed_ || num_closed() == 0 || *closed_ == *other.closed_;
}

double JobSpeeds::exchange(int64_t hosts) const {
  const auto known = exchanges_.find(hosts);
  return known == exchanges_.end() ? 0 : known->second;
}

void JobSpeeds::rescale(double factor) {
  mini_batch_ *= factor;
  for (auto& [type, seconds] : guesses_) seconds *= factor;
  for (auto& [type, measured] : mini_batches_) measured = {measured.seconds * factor, 0};
  for (auto& [key, measured] : measured_) measured = {measured.seconds * factor, 0};
}

double JobSpeeds::step_seconds(const DevicesKey& key, int64_t ests) const {
  const std::pair<const DevicesKey, Measured>* nearest = nullptr;
  std::pair<double, double> distance;
  for (const auto& entry : measured_) {
    if (entry.first.type != key.type) continue;
    const std::pair away = apart(entry.first, key);
    if (nearest != nullptr && away >= distance) continue;
    nearest = &entry;
    distance = away;
  }
  if (nearest == nullptr) return pace(key, ests) * over_pace(key, ests) + exchange(key.hosts);
  const auto turns = static_cast<double>(most_ests(ests, key.devices));
  const double scaled = nearest->second.seconds * turns / static_cast<double>(most_ests(ests, nearest->first.devices));
  // Fewer hosts than ever measured exchange less.
  const bool has_fewer = mini_batch_ > 0 && nearest->first.hosts > key.hosts;
  const double more = key.hosts > nearest->first.hosts ? exchange(key.hosts) - exchange(nearest->first.hosts) : 0;
  return has_fewer ? std::min(scaled, pace(key, ests)) : scaled + std::max(0.0, more);
}

}  // namespace estrain::dispatch

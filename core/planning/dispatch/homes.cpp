#include "core/planning/dispatch/homes.h"

#include <algorithm>

#include "core/planning/dispatch/slots.h"

namespace estrain::dispatch {
namespace {

std::map<std::string, int64_t> by_host(const Target& target) {
  std::map<std::string, int64_t> devices;
  for (const auto& [group, count] : target) {
    if (count > 0) devices[host_in(group)] += count;
  }
  return devices;
}

void keep_one_host(Job& job) {
  const auto devices = by_host(job.target);
  if (devices.size() < 2) return;
  const bool stays = is_up(job.phase) && devices.contains(job.home);
  const auto most = std::ranges::max_element(devices, {}, [](const auto& entry) { return entry.second; });
  const std::string host = stays ? job.home : most->first;
  std::erase_if(job.target, [&](const auto& entry) { return host_in(entry.first) != host; });
}

// Exchanges devices of the same type, of groups on hosts that give, for spare devices of this group.
template <typename Gives>
void exchange_for(const State& state, Job& job, const std::string& group, Gives&& host_gives) {
  int64_t spare = capacity(state, group) - targeted_of(state, group);
  for (auto& [other, count] : job.target) {
    const bool gives = other != group && type_in(other) == type_in(group) && host_gives(host_in(other));
    const int64_t moved = gives ? std::min(count, std::max<int64_t>(spare, 0)) : 0;
    if (moved == 0) continue;
    count -= moved;
    spare -= moved;
    job.target[group] += moved;
  }
  std::erase_if(job.target, [](const auto& entry) { return entry.second == 0; });
}

}  // namespace

bool can_lead(const std::string& home, const Target& target) {
  const auto devices = by_host(target);
  return devices.contains(home) && (home.empty() || !devices.contains(""));
}

std::string home_for(const Target& target) {
  const auto devices = by_host(target);
  if (devices.empty() || devices.contains("")) return "";
  return std::ranges::max_element(devices, {}, [](const auto& entry) { return entry.second; })->first;
}

int64_t targeted_of(const State& state, const std::string& group) {
  int64_t all = 0;
  for (const auto& [id, job] : state.jobs) {
    const auto at = job.target.find(group);
    if (at != job.target.end()) all += at->second;
  }
  return all;
}

bool may_take(const Job& job, const std::string& group) {
  if (type_in(group) != job.request.type) return false;
  const std::string host = host_in(group);
  if (host == job.home) return true;
  return !job.request.one_host && !host.empty() && by_host(job.target).contains(job.home);
}

std::optional<std::string> spare_group(const State& state, const Job& job) {
  std::vector<std::string> groups = groups_of(state);
  std::erase_if(groups, [&](const std::string& group) {
    return !may_take(job, group) || capacity(state, group) <= targeted_of(state, group);
  });
  if (groups.empty()) return std::nullopt;
  return *std::ranges::min_element(groups, {}, [&](const std::string& group) {
    return host_in(group) == job.home ? 0 : job.target.contains(group) ? 1 : 2;
  });
}

void settle_on_hosts(const State& state, Job& job) {
  if (job.request.one_host) return keep_one_host(job);
  if (!is_up(job.phase) || job.target.empty() || can_lead(job.home, job.target)) return;
  const auto groups = groups_of(state);
  for (const std::string& group : groups) {
    if (host_in(group) == job.home && !by_host(job.target).contains(job.home))
      exchange_for(state, job, group, [](const std::string&) { return true; });
  }
  for (const std::string& group : groups) {  // of the daemon's own host, elsewhere
    if (job.home.empty() || host_in(group).empty() || !may_take(job, group)) continue;
    exchange_for(state, job, group, [](const std::string& host) { return host.empty(); });
  }
}

}  // namespace estrain::dispatch

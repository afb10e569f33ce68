#include "core/planning/dispatch/homes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "core/base/counted.h"
#include "core/planning/dispatch/slots.h"
#include "core/planning/dispatch/turn.h"
#include "core/planning/plan/changes/change.h"

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

// A group of the job's type, and how many devices of the group the job could have; of a job that is up: at once.
struct Room {
  std::string group;
  int64_t devices;
};

// `count`: devices of the type to be placed. Without groups whose GPUs do not hold the job with all of them.
std::vector<Room> rooms_for(const State& state, const Job& job, const std::string& type, int64_t count,
                            const AllHeld& held) {
  std::vector<Room> rooms;
  for (const std::string& group : groups_of(state)) {
    const bool may_lead = !is_up(job.phase) || job.home.empty() || !host_in(group).empty();
    if (type_in(group) != type || !may_lead || !is_open_to(state, job, host_in(group))) continue;
    const auto own = job.target.find(group);
    int64_t spare = capacity(state, group) - targeted_of(state, group);
    if (is_up(job.phase)) spare = std::min(spare, free_slots(state, group));
    const int64_t devices = std::min(spare + (own == job.target.end() ? 0 : own->second),
                                     workers_with_memory(state, job, host_in(group), held));
    const bool would_take_all = devices >= count;
    if (would_take_all && !gpus_hold(state, job, {{group, count}})) continue;
    if (devices > 0) rooms.push_back({group, devices});
  }
  // The home first, and of equal rooms those where the job has devices: fewer processes start.
  std::ranges::stable_sort(rooms, {}, [&](const Room& room) {
    return is_up(job.phase) && host_in(room.group) == job.home ? 0 : job.target.contains(room.group) ? 1 : 2;
  });
  return rooms;
}

// Takes the tightest room for all `count` devices if there is one, else the largest; the first, if so asked.
Room take_room(std::vector<Room>& rooms, int64_t count, bool takes_first = false) {
  auto chosen = rooms.begin();
  const auto is_better = [&](const Room& one, const Room& other) {
    const bool fits = one.devices >= count, other_fits = other.devices >= count;
    if (fits != other_fits) return fits;
    return fits ? one.devices < other.devices : one.devices > other.devices;
  };
  if (!takes_first) {
    for (auto at = rooms.begin() + 1; at != rooms.end(); ++at)
      if (is_better(*at, *chosen)) chosen = at;
  }
  Room room = *chosen;
  rooms.erase(chosen);
  return room;
}

// A name for the rack of a group's host; a host whose rack is not known is a rack of its own.
std::string rack_of(const State& state, const std::string& group) {
  const auto rack = state.racks.find(host_in(group));
  return rack == state.racks.end() ? "host " + host_in(group) : "rack " + rack->second;
}

// The devices of several rooms, the largest room first.
class LargestRooms {
 public:
  void add(const std::vector<Room>& rooms) {
    for (const Room& room : rooms) devices_.push_back(room.devices);
    std::ranges::sort(devices_, std::greater<>());
    sums_.assign(1, 0);
    for (const int64_t devices : devices_) sums_.push_back(sums_.back() + devices);
  }
  size_t count() const { return devices_.size(); }
  // Returns the devices in the largest rooms, so many at most.
  int64_t in(size_t rooms) const { return sums_[std::min(rooms, count())]; }
  // The same of these rooms and others together.
  int64_t in(size_t rooms, const LargestRooms& others) const {
    int64_t most = 0;
    for (size_t theirs = 0; theirs <= std::min(rooms, others.count()); ++theirs)
      most = std::max(most, in(rooms - theirs) + others.in(theirs));
    return most;
  }

 private:
  std::vector<int64_t> devices_, sums_ = {0};  // sums_[i]: of the first i
};

// Leaves out the rooms of racks without which `count` devices need no more hosts. Takes the racks of `chosen` first,
// and further racks as take_room() takes rooms.
void keep_few_racks(const State& state, const Target& chosen, int64_t count, std::vector<Room>& rooms) {
  if (state.racks.empty()) return;
  LargestRooms all;
  all.add(rooms);
  if (all.in(rooms.size()) < count) return;
  size_t hosts = 1;
  while (all.in(hosts) < count) ++hosts;
  std::map<std::string, std::vector<Room>> in_racks;
  for (const Room& room : rooms) in_racks[rack_of(state, room.group)].push_back(room);
  std::map<std::string, LargestRooms> racks;
  for (const auto& [rack, inside] : in_racks) racks[rack].add(inside);
  LargestRooms near;
  const auto take_rack = [&](const std::string& rack) {
    if (racks.erase(rack) > 0) near.add(in_racks.at(rack));
  };
  for (const auto& [group, devices] : chosen) take_rack(rack_of(state, group));
  if (hosts == 1 && near.in(1) < count) return;
  while (near.in(hosts) < count) {
    std::vector<Room> further;  // a rack each: all room there if the rack is enough, else the room on so many hosts
    for (const auto& [rack, inside] : racks) {
      const int64_t most = near.in(hosts, inside);
      further.push_back({rack, most < count ? most : near.in(near.count()) + inside.in(inside.count())});
    }
    take_rack(take_room(further, count).group);
  }
  std::erase_if(rooms, [&](const Room& room) { return racks.contains(rack_of(state, room.group)); });
}

// Which devices packed_on() takes first, or leaves out.
enum class Packing {
  anywhere,
  from_home,  // of a job that is up: devices at home first
  of_agents,  // none of the daemon's own host
};

Target packed_on(const State& state, const Job& job, Packing packing, const AllHeld& held) {
  Target counts, result;
  for (const auto& [group, count] : job.target) counts[type_in(group)] += count;
  for (const auto& [type, count] : counts) {
    std::vector<Room> rooms = rooms_for(state, job, type, count, held);
    if (packing == Packing::of_agents)
      std::erase_if(rooms, [](const Room& room) { return host_in(room.group).empty(); });
    bool takes_first = packing == Packing::from_home && !rooms.empty() && host_in(rooms.front().group) == job.home;
    int64_t left = count;
    while (left > 0 && !rooms.empty()) {
      if (!takes_first) keep_few_racks(state, result, left, rooms);
      const Room room = take_room(rooms, left, std::exchange(takes_first, false));
      result[room.group] = std::min(left, room.devices);
      left -= result[room.group];
    }
    if (left > 0) return job.target;
  }
  return result;
}

// Returns whether a group is on a host that is not open to the job.
auto is_closed_to(const State& state, const Job& job) {
  return [&](const auto& entry) { return !is_open_to(state, job, host_in(entry.first)); };
}

void place(const State& state, Job& job, const AllHeld& held) {
  job.target = packed(state, job, held);
  if (std::ranges::none_of(job.target, is_closed_to(state, job))) return;
  job.target.clear();
  job.reason = job.request.alone ? "waits for a host to itself" : "waits: another job is alone on the hosts with room";
}

void keep_off_closed_hosts(const State& state, Job& job) {
  const Target has = held_by(state, job.id);
  const auto is_closed = is_closed_to(state, job);
  std::erase_if(job.target, [&](const auto& entry) { return !has.contains(entry.first) && is_closed(entry); });
}

// The other waiting jobs are placed later.
void place_alone(const State& state, Job& job, const std::vector<Job*>& jobs, const AllHeld& held) {
  std::map<Job*, Target> later;
  for (Job* other : jobs)
    if (other->phase == Phase::waiting && !other->request.alone) later[other] = std::exchange(other->target, {});
  place(state, job, held);
  for (auto& [other, target] : later) other->target = std::move(target);
}

// A move to another home stops the job with a checkpoint, and starts it again.
constexpr double kMoveOfHome = 3;  // times the cost of a change

// How much a job would gain by moving together.
struct Gathering {
  Job* job = nullptr;
  Target target = {};
  double seconds = 0;
};

Gathering gathering_on(const DispatchTurn& turn, const JobSpeeds& speeds, Job& job, Target close) {
  const size_t hosts = by_host(job.target).size(), fewer = by_host(close).size();
  if (fewer >= hosts) return {};
  const std::string type = type_in(close.begin()->first);
  const auto seconds_on = [&](size_t count) {
    return speeds.step_seconds({type, job.targeted(), static_cast<int64_t>(count)}, job.request.ests);
  };
  const double charge = turn.state.charge > 0 ? turn.state.charge : turn.settings.first_charge;
  const double cost = can_lead(job.home, close) ? charge : kMoveOfHome * charge;
  const plan::ChangeWorth verdict =
      plan::weigh({.step_seconds_now = seconds_on(hosts),
                   .step_seconds_then = seconds_on(fewer),
                   .steps_left = static_cast<int64_t>(foreseen_end(turn.state, job).steps),
                   .cost_seconds = cost});
  if (!verdict.worth) return {};
  return {&job, std::move(close), verdict.gain_seconds - cost};
}

Gathering gathering_of(const DispatchTurn& turn, const SharedSpeeds& shared, Job& job, const AllHeld& held) {
  const bool is_settled = job.phase == Phase::running && !job.request.background && !job.is_leaderless &&
                          job.batch.wanted == 0 && job.target == held_by(turn.state, job.id);
  if (!is_settled || job.target.size() < 2 || turn.now < job.no_growth_before) return {};
  const std::string type = type_in(job.target.begin()->first);
  const auto is_other = [&](const auto& entry) { return type_in(entry.first) != type; };
  if (std::ranges::any_of(job.target, is_other)) return {};
  const JobSpeeds speeds = shared.speeds_of(job);
  Gathering at_home = gathering_on(turn, speeds, job, packed_on(turn.state, job, Packing::from_home, held));
  // A job that stops to move has no devices for a moment: a waiting job could take them.
  const auto waits = [](const auto& entry) {
    return entry.second.phase == Phase::waiting && !entry.second.request.background;
  };
  if (std::ranges::any_of(turn.state.jobs, waits)) return at_home;
  Gathering anywhere = gathering_on(turn, speeds, job, packed_on(turn.state, job, Packing::anywhere, held));
  return anywhere.seconds > at_home.seconds ? std::move(anywhere) : std::move(at_home);
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
    if (at != job.target.end() && !job.request.background) all += at->second;
  }
  return all;
}

bool may_take(const Job& job, const std::string& group) {
  if (type_in(group) != job.request.type) return false;
  const std::string host = host_in(group);
  if (host == job.home) return true;
  return !job.request.one_host && !host.empty() && by_host(job.target).contains(job.home);
}

bool is_open_to(const State& state, const Job& job, const std::string& host) {
  const auto is_on_host = [&](const auto& group) { return host_in(group.first) == host; };
  const auto is_in_the_way = [&](const auto& entry) {
    const auto& [id, other] = entry;
    if (id == job.id || is_over(other.phase) || other.request.background || !(job.request.alone || other.request.alone))
      return false;
    return std::ranges::any_of(other.target, is_on_host) || std::ranges::any_of(held_by(state, id), is_on_host);
  };
  return std::ranges::none_of(state.jobs, is_in_the_way);
}

void place_together(State& state, const std::vector<Job*>& jobs) {
  state.underway.placed.clear();
  const AllHeld held = all_held(state);
  for (const bool alone : {true, false}) {
    for (Job* job : jobs) {
      if (job->request.alone != alone || job->target.empty()) continue;
      if (job->phase != Phase::waiting) {
        keep_off_closed_hosts(state, *job);
      } else if (alone) {
        place_alone(state, *job, jobs, held);
      } else {
        place(state, *job, held);
      }
      state.underway.placed.insert(job->id);
    }
  }
}

std::optional<std::string> spare_group(const State& state, const Job& job) {
  std::vector<std::string> groups = groups_of(state);
  std::erase_if(groups, [&](const std::string& group) {
    return !may_take(job, group) || capacity(state, group) <= targeted_of(state, group) ||
           !is_open_to(state, job, host_in(group));
  });
  if (groups.empty()) return std::nullopt;
  const auto is_near = [&](const std::string& group) {
    return std::ranges::any_of(job.target,
                               [&](const auto& entry) { return rack_of(state, entry.first) == rack_of(state, group); });
  };
  return *std::ranges::min_element(groups, {}, [&](const std::string& group) {
    return host_in(group) == job.home ? 0 : job.target.contains(group) ? 1 : is_near(group) ? 2 : 3;
  });
}

Target packed(const State& state, const Job& job, const AllHeld& held) {
  Target close = packed_on(state, job, Packing::anywhere, held);
  const size_t hosts = by_host(close).size();
  if (hosts < 2 || !by_host(close).contains("")) return close;
  // A job led from the daemon's own host could never leave this host.
  const Target of_agents = packed_on(state, job, Packing::of_agents, held);
  return by_host(of_agents).contains("") || by_host(of_agents).size() > hosts ? close : of_agents;
}

void gather_one(DispatchTurn& turn, const SharedSpeeds& shared) {
  const AllHeld held = all_held(turn.state);
  Gathering best;
  for (auto& [id, job] : turn.state.jobs) {
    Gathering one = gathering_of(turn, shared, job, held);
    if (one.job != nullptr && (best.job == nullptr || one.seconds > best.seconds)) best = std::move(one);
  }
  if (best.job == nullptr) return;
  best.job->reason = fmt::format("moves together: on {} instead of {}", counted(by_host(best.target).size(), "host"),
                                 by_host(best.job->target).size());
  best.job->target = std::move(best.target);
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
    if (!is_open_to(state, job, host_in(group))) continue;
    exchange_for(state, job, group, [](const std::string& host) { return host.empty(); });
  }
}

}  // namespace estrain::dispatch

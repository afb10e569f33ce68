// Assigns devices to jobs: asks the policy, and before and after it applies the rules unknown to policies.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/planning/dispatch/homes.h"
#include "core/planning/dispatch/shared_speeds.h"
#include "core/planning/dispatch/slots.h"
#include "core/planning/dispatch/targets.h"
#include "core/planning/dispatch/turn.h"

namespace estrain::dispatch {
namespace {

// A policy's view of a real job's speed.
class RealOutlook : public scheduling::Outlook {
 public:
  RealOutlook(const Job& job, JobSpeeds speeds, const ForeseenEnd& end, const scheduling::Cluster& cluster)
      : job_(job), speeds_(std::move(speeds)), end_(end), cluster_(cluster) {}

  double seconds_left(const scheduling::Shape& shape) const override {
    DeviceSet devices;
    int64_t hosts = 1;  // devices of another type may be on the same hosts
    for (size_t type = 0; type < cluster_.types().size(); ++type) {
      if (shape.devices[type] == 0) continue;
      devices[cluster_.types()[type]] = shape.devices[type];
      hosts = std::max<int64_t>(hosts, shape.hosts[type]);
    }
    if (devices.empty()) return std::numeric_limits<double>::infinity();
    return steps_left() * speeds_.step_seconds(JobSpeeds::key_of(devices, hosts), job_.request.ests);
  }

  double step_seconds(int64_t devices) const override {
    const scheduling::Shape shape = scheduling::packed(cluster_, 0, devices);
    return speeds_.step_seconds({cluster_.types()[0], devices, std::max(1, shape.hosts[0])}, job_.request.ests);
  }

  double steps_left() const override { return end_.steps; }

  Epochs epochs() const override {
    if (job_.request.early_stop) return end_.evaluations;
    if (!job_.request.batch || job_.request.batch->epochs == 0) return {};
    const auto done = static_cast<double>(job_.batch.epoch);
    return {done, static_cast<double>(job_.request.batch->epochs) - done};
  }

 private:
  const Job& job_;
  JobSpeeds speeds_;
  ForeseenEnd end_;
  const scheduling::Cluster& cluster_;
};

// The policy's view of a moment, and the policy's answer. A policy's host is a group: devices of one host and type.
struct Round {
  Round(std::vector<std::string> names, scheduling::Cluster devices)
      : groups(std::move(names)), cluster(std::move(devices)) {}

  std::vector<std::string> groups;
  scheduling::Cluster cluster;
  std::vector<Job*> jobs;
  std::vector<RealOutlook> outlooks;
  std::vector<scheduling::JobView> facts;
};

scheduling::Placement placement_of(const Job& job, const std::vector<std::string>& groups) {
  scheduling::Placement placement;
  for (size_t group = 0; group < groups.size(); ++group) {
    const auto at = job.target.find(groups[group]);
    if (at == job.target.end() || at->second == 0) continue;
    placement.push_back({static_cast<int32_t>(group), static_cast<int32_t>(at->second)});
  }
  return placement;
}

Target target_of(const scheduling::Placement& placement, const std::vector<std::string>& groups) {
  Target target;
  for (const scheduling::DevicesOnHost& share : placement)
    target[groups[static_cast<size_t>(share.host)]] += share.devices;
  return target;
}

// Returns the number of a group's devices that the policy sees: where a job is alone on the host, the job's own.
int64_t visible(const State& state, const std::string& group) {
  const auto is_on_host = [&](const auto& entry) { return host_in(entry.first) == host_in(group); };
  const auto is_alone_there = [&](const auto& entry) {
    return entry.second.request.alone && !is_over(entry.second.phase) &&
           (std::ranges::any_of(entry.second.target, is_on_host) ||
            std::ranges::any_of(held_by(state, entry.first), is_on_host));
  };
  return std::ranges::any_of(state.jobs, is_alone_there) ? targeted_of(state, group) : capacity(state, group);
}

// Returns whether the job may have devices of several hosts with devices of this type: its state is in host memory
// then.
bool may_spread(const State& state, const Job& job, const std::string& type) {
  const std::vector<std::string> groups = groups_of(state);
  return !job.request.one_host &&
         std::ranges::count(groups, type, [](const std::string& group) { return type_in(group); }) > 1;
}

// Returns whether a host's devices of this type hold the job; true of CPUs.
bool has_gpus_that_hold(const State& state, const Job& job, const std::string& type) {
  return !knows_gpu_memory(state, job) || std::ranges::any_of(groups_of(state), [&](const std::string& group) {
    return type_in(group) == type && fewest_on_gpus(state, job, group);
  });
}

// Returns how many of a group's devices, `most` at most, hold the job. Of several hosts any number may.
int64_t reach_on_gpus(const State& state, const Job& job, const std::string& group, int64_t most) {
  if (!knows_gpu_memory(state, job) || may_spread(state, job, type_in(group))) return most;
  most = std::min({most, job.request.most, job.request.ests});
  return nearest_on_gpus(state, job, group, most, most).value_or(0);
}

// Returns how many of a group's devices have memory for a worker of the job, were the job alone in the pool. Where
// memory is kept from growths, a job at work keeps its own devices and grows beside the other jobs.
int64_t reach_in_group(const State& state, const Job& job, const std::string& group) {
  const std::string host = host_in(group);
  const int64_t alone =
      reach_on_gpus(state, job, group, std::min(capacity(state, group), workers_on_empty(state, job, host)));
  const Underway::Kept& kept = state.underway.kept;
  if (kept.job == 0 || kept.host != host || !is_up(job.phase)) return alone;
  const AllHeld held = all_held(state);
  const auto at = held.find(job.id);
  const int64_t own = at == held.end() || !at->second.contains(group) ? 0 : at->second.at(group);
  return std::max(std::min(own, alone), std::min(alone, workers_with_memory(state, job, host, held)));
}

// Gives each job with an open type the type of spare devices on which the job's gang would be fastest (EasyScale,
// section 3.4), before its first start; a waiting job at D2, whose bits are the same on all types, before each start.
// Without spare devices the job keeps its type.
void choose_types(const State& state, const std::vector<Job*>& jobs, const SharedSpeeds& shared) {
  Target spare;  // by type
  for (const std::string& group : groups_of(state))
    spare[type_in(group)] += capacity(state, group) - targeted_of(state, group);
  for (Job* job : jobs) {
    const bool may_change = job->starts == 0 || (job->request.mixes_types && job->phase == Phase::waiting);
    if (!job->is_type_open || !may_change) continue;
    for (const auto& [group, count] : job->target) spare[type_in(group)] += count;
    const JobSpeeds speeds = shared.speeds_of(*job);
    const int64_t wanted = std::clamp<int64_t>(job->request.devices, 1, job->request.ests);
    const auto steps_in_a_second = [&](const std::string& type) {
      const int64_t devices = std::min(spare[type], wanted);
      if (devices < 1 || !has_gpus_that_hold(state, *job, type)) return 0.0;
      return 1 / speeds.step_seconds({type, devices, 1}, job->request.ests);
    };
    std::string best = job->request.type;
    for (const auto& [type, count] : spare)
      if (steps_in_a_second(type) > steps_in_a_second(best)) best = type;
    if (best != job->request.type) job->target.clear();
    job->request.type = best;
    spare[best] -= std::min(spare[best], wanted);
  }
}

// Returns the number of devices of a job's type, or of any type, that have memory for a worker of the job at the same
// time: 0 if no host has memory for the job.
int64_t reach_in_memory(const State& state, const Job& job, bool any_type) {
  int64_t all = 0, most = 0;
  for (const std::string& group : groups_of(state)) {
    if (!any_type && type_in(group) != job.request.type) continue;
    const int64_t here = reach_in_group(state, job, group);
    all += here;
    most = std::max(most, here);
  }
  return job.request.one_host ? most : all;
}

// Returns the fewest devices of the job's type that hold the job on one host; 0: not known, or no number of devices
// does.
int64_t fewest_that_hold(const State& state, const Job& job) {
  if (!knows_gpu_memory(state, job)) return 0;
  std::optional<int64_t> fewest;
  for (const std::string& group : groups_of(state)) {
    if (type_in(group) != job.request.type) continue;
    if (const std::optional<int64_t> here = fewest_on_gpus(state, job, group))
      fewest = std::min(fewest.value_or(*here), *here);
  }
  return fewest.value_or(0);
}

// The devices of each type: all of the type, and those of a group with most.
struct DevicesOfTypes {
  Target all, most_of_group;
};

// Returns a job as the policy sees the job, without an outlook.
scheduling::JobView view_of(const DispatchTurn& turn, const Job& job, const Round& round, DevicesOfTypes& devices,
                            const FairShares& shares) {
  const State& state = turn.state;
  const Request& request = job.request;
  const auto& types = round.cluster.types();
  const auto users = static_cast<int64_t>(std::max<size_t>(1, state.usage.size()));
  scheduling::JobView view;
  view.name = request.name;
  view.order = job.id;
  view.submitted = job.submitted;
  view.type = static_cast<size_t>(std::ranges::find(types, request.type) - types.begin());
  // Devices of the job's type within reach of the job at the same time.
  const int64_t in_memory = std::max<int64_t>(1, reach_in_memory(state, job, false));
  const int64_t of_type = request.one_host ? devices.most_of_group[request.type] : devices.all[request.type];
  const int64_t reach = std::min(of_type, in_memory);
  view.most = std::min(request.most, request.ests);
  if (request.one_host) view.most = std::min(view.most, reach);
  if (!state.memory.empty() || !state.gpu_memory.empty())
    view.most = std::min(view.most, std::max(in_memory, reach_in_memory(state, job, request.mixes_types)));
  if (turn.now < job.no_growth_before) view.most = std::max<int64_t>(1, std::min(view.most, job.targeted()));
  view.requested = std::clamp<int64_t>(std::max(request.devices, fewest_that_hold(state, job)), 1,
                                       std::min(std::min(request.most, request.ests), reach));
  view.mixes_types = request.mixes_types;
  view.changes_batch = request.batch.has_value();
  view.owner = request.user;
  view.quota = round.cluster.devices() / users;
  view.weight = std::exp2(static_cast<double>(request.priority)) * shares.of(request.user);
  view.deadline = request.deadline;
  view.placement = placement_of(job, round.groups);
  view.attained = job.attained;
  view.held = job.held;
  view.lost = job.lost;
  view.started = job.started;
  view.starts = job.starts;
  return view;
}

// Asks the policy about these jobs, and gives them their targets.
void ask_policy(DispatchTurn& turn, const SharedSpeeds& shared, const std::vector<Job*>& all) {
  State& state = turn.state;
  const double now = turn.now;
  std::vector<scheduling::Host> hosts;
  std::vector<std::string> groups;
  DevicesOfTypes devices;
  for (const std::string& group : groups_of(state)) {
    const int64_t in_group = capacity(state, group), seen = visible(state, group);
    int64_t& most = devices.most_of_group[type_in(group)];
    devices.all[type_in(group)] += in_group;
    most = std::max(most, in_group);
    if (seen == 0) continue;
    groups.push_back(group);
    hosts.push_back({type_in(group), seen});
  }
  choose_types(state, all, shared);
  if (hosts.empty()) return;
  Round round(groups, scheduling::Cluster(std::move(hosts)));
  const auto& types = round.cluster.types();
  for (Job* job : all) {
    if (std::ranges::find(types, job->request.type) != types.end()) round.jobs.push_back(job);
  }
  round.outlooks.reserve(round.jobs.size());
  const FairShares shares(state, now);
  for (const Job* job : round.jobs) {
    round.facts.push_back(view_of(turn, *job, round, devices, shares));
    round.facts.back().outlook =
        &round.outlooks.emplace_back(*job, shared.speeds_of(*job), foreseen_end(state, *job), round.cluster);
  }
  std::vector<const scheduling::JobView*> facts;
  for (const scheduling::JobView& job : round.facts) facts.push_back(&job);
  const scheduling::View view{round.cluster, facts, now, turn.settings.round,
                              state.charge > 0 ? state.charge : turn.settings.first_charge};
  const scheduling::Decision decision = turn.policy.policy->decide(view);
  ++state.underway.decisions;
  scheduling::FreeDevices free(round.cluster);
  for (size_t i = 0; i < round.jobs.size(); ++i) {
    free.take(decision.placements[i]);  // throws if a policy gives out too many devices
    Job& job = *round.jobs[i];
    const Target target = target_of(decision.placements[i], round.groups);
    if (target != job.target) job.owed = 0;
    job.target = target;
    job.reason = decision.reasons[i];
  }
}

// Returns whether an empty host of the pool would have memory for the job; true also while the pool lacks devices.
bool has_host_with_memory(const State& state, const Job& job) {
  const std::vector<std::string> groups = groups_of(state);
  const auto is_of_use = [&](const std::string& group) {
    return job.is_type_open || type_in(group) == job.request.type;
  };
  return std::ranges::none_of(groups, is_of_use) || std::ranges::any_of(groups, [&](const std::string& group) {
           return is_of_use(group) && reach_in_group(state, job, group) > 0;
         });
}

// What a decision changes of a job: a decision may be taken again.
struct Meant {
  Target target;
  int64_t owed;
  std::string type, reason;
};

std::map<JobId, Meant> meant_for(const std::vector<Job*>& jobs) {
  std::map<JobId, Meant> all;
  for (const Job* job : jobs) all[job->id] = {job->target, job->owed, job->request.type, job->reason};
  return all;
}

void restore(const std::map<JobId, Meant>& before, const std::vector<Job*>& jobs) {
  for (Job* job : jobs) {
    const Meant& meant = before.at(job->id);
    job->target = meant.target;
    job->owed = meant.owed;
    job->request.type = meant.type;
    job->reason = meant.reason;
  }
}

// Gives the jobs their targets. A policy does not know memory: where it gives devices to a waiting job that finds no
// memory, the policy is asked again without the job, so that other jobs get the devices.
void assign_within_memory(DispatchTurn& turn, const SharedSpeeds& shared, const std::vector<Job*>& all) {
  constexpr int kMostQuestions = 16;
  State& state = turn.state;
  const std::map<JobId, Meant> before = meant_for(all);
  std::set<JobId> without;  // jobs that wait for memory
  for (const Job* job : all)
    if (job->phase == Phase::waiting && !has_host_with_memory(state, *job)) without.insert(job->id);
  keep_memory(turn, all);
  for (int question = 1;; ++question) {
    std::vector<Job*> seen = all;
    std::erase_if(seen, [&](const Job* job) { return without.contains(job->id); });
    for (Job* job : all)
      if (without.contains(job->id)) job->target.clear();
    ask_policy(turn, shared, seen);
    place_together(state, seen);
    for (Job* job : seen) settle_on_hosts(state, *job);
    keep_least(state, seen, turn.now);
    const std::vector<JobId> refused = fit_memory(turn, seen);
    without.insert(refused.begin(), refused.end());
    if (refused.empty() || question == kMostQuestions) break;
    set_memory_aside(turn, seen, refused);
    restore(before, all);
  }
  for (Job* job : all)
    if (without.contains(job->id)) let_wait_for_memory(turn, *job);
}

}  // namespace

void assign_devices(DispatchTurn& turn) {
  State& state = turn.state;
  state.underway.is_stale = false;
  state.underway.decided = turn.now;
  state.underway.aside = {};
  state.underway.kept = {};
  std::map<JobId, Target> before;
  for (const auto& [id, job] : state.jobs) before[id] = job.target;
  learn_ends(state);
  make_fit(state);
  give_back_owed(state, turn.now);
  const std::vector<Job*> all = queue(state, turn.now);
  const SharedSpeeds shared(state);
  assign_within_memory(turn, shared, all);
  gather_one(turn, shared);
  for (Job* job : all) choose_batch(turn, shared, *job);
  for (auto& [id, job] : state.jobs) {
    if (is_over(job.phase) || job.target == before[id] || job.request.background) continue;
    turn.act(note_of(job, "devices", job.reason));
  }
}

}  // namespace estrain::dispatch

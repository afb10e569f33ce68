// Assigns devices to jobs: asks the policy, and handles before and after it what it does not know.

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/dispatch/dispatcher.h"

namespace estrain::dispatch {
namespace {

// Answers the questions of a policy for a real job.
class RealOutlook : public pool::Outlook {
 public:
  RealOutlook(const Job& job, const pool::Cluster& cluster) : job_(job), cluster_(cluster) {}

  double seconds_left(const pool::Shape& shape) const override {
    double steps_in_a_second = 0;
    for (size_t type = 0; type < cluster_.types().size(); ++type) {
      if (shape.devices[type] == 0) continue;
      steps_in_a_second += 1 / job_.speeds.step_seconds(cluster_.types()[type], shape.devices[type], job_.request.ests);
    }
    if (steps_in_a_second <= 0) return std::numeric_limits<double>::infinity();
    return steps_left() / steps_in_a_second;
  }

  double step_seconds(int64_t devices) const override {
    return job_.speeds.step_seconds(cluster_.types()[0], devices, job_.request.ests);
  }

  double steps_left() const override {
    constexpr int64_t kUnknownSteps = 1000;
    const int64_t total = job_.request.total_steps > 0 ? job_.request.total_steps : job_.step + kUnknownSteps;
    return static_cast<double>(std::max<int64_t>(1, total - job_.step));
  }

 private:
  const Job& job_;
  const pool::Cluster& cluster_;
};

// A view of one moment, and the answer to it. One host for each type: devices of a type are alike.
struct Round {
  explicit Round(pool::Cluster devices) : cluster(std::move(devices)) {}

  pool::Cluster cluster;
  std::vector<Job*> jobs;
  std::vector<RealOutlook> outlooks;
  std::vector<pool::Job> facts;
};

pool::Placement placement_of(const Job& job, const pool::Cluster& cluster) {
  pool::Placement placement;
  for (size_t type = 0; type < cluster.types().size(); ++type) {
    const auto at = job.target.find(cluster.types()[type]);
    if (at == job.target.end() || at->second == 0) continue;
    placement.push_back({static_cast<int32_t>(type), static_cast<int32_t>(at->second)});
  }
  return placement;
}

std::map<std::string, int64_t> target_of(const pool::Placement& placement, const pool::Cluster& cluster) {
  std::map<std::string, int64_t> target;
  for (const pool::Share& share : placement) target[cluster.types()[cluster.type_of(share.host)]] += share.devices;
  return target;
}

int64_t targeted_of(const std::map<JobId, Job>& jobs, const std::string& type) {
  int64_t all = 0;
  for (const auto& [id, job] : jobs) {
    const auto at = job.target.find(type);
    if (at != job.target.end()) all += at->second;
  }
  return all;
}

void lessen(Job& job, const std::string& type) {
  if (--job.target[type] == 0) job.target.erase(type);
}

}  // namespace

double Dispatcher::fair_share(const std::string& user, double now) const {
  double all = 0, own = 0;
  for (const auto& [name, usage] : state_.usage) {
    const double left = usage.device_seconds * std::exp2(-std::max(0.0, now - usage.at) / Usage::kHalfLife);
    all += left;
    if (name == user) own = left;
  }
  if (all <= 0) return 1;
  return std::exp2(-own / all * static_cast<double>(state_.usage.size()));
}

std::vector<Job*> Dispatcher::queue(double now) {
  std::vector<Job*> jobs;
  std::map<std::string, double> shares;
  for (auto& [id, job] : state_.jobs) {
    const bool may_run = is_up(job.phase) || (job.phase == Phase::waiting && job.not_before <= now);
    if (!may_run || job.is_unwanted) continue;
    if (job.request.type.empty() && !state_.slots.empty()) {
      const auto cpu = std::ranges::find(state_.slots, "cpu", &Slot::name);
      job.request.type = cpu != state_.slots.end() ? "cpu" : state_.slots.front().type();
    }
    shares.emplace(job.request.user, fair_share(job.request.user, now));
    jobs.push_back(&job);
  }
  std::ranges::stable_sort(jobs, [&](const Job* a, const Job* b) {
    if (a->request.priority != b->request.priority) return a->request.priority > b->request.priority;
    return shares[a->request.user] > shares[b->request.user];
  });
  return jobs;
}

// One device less for a job of this type. Those that have not got theirs yet give way first, the newest of them before
// others; then whoever has most; what an owner wants to keep at least goes last.
bool Dispatcher::shrink_somebody(const std::string& type) {
  Job* victim = nullptr;
  std::tuple<int, int64_t, JobId> best;
  for (auto& [id, job] : state_.jobs) {
    const auto at = job.target.find(type);
    if (at == job.target.end() || at->second == 0) continue;
    const int64_t has = at->second;
    const int rank = has > held(id, type)                            ? 3
                     : has > std::max<int64_t>(1, job.request.least) ? 2
                     : has > job.request.least                       ? 1
                                                                     : 0;
    const std::tuple<int, int64_t, JobId> worth{rank, rank == 3 ? 0 : has, id};
    if (victim == nullptr || worth > best) victim = &job, best = worth;
  }
  if (victim == nullptr) return false;
  lessen(*victim, type);
  if (is_up(victim->phase)) ++victim->owed;
  return true;
}

// No more devices are meant for jobs than there are.
void Dispatcher::make_fit() {
  std::vector<std::string> types;
  for (const auto& [id, job] : state_.jobs) {
    for (const auto& [type, count] : job.target) {
      if (std::ranges::find(types, type) == types.end()) types.push_back(type);
    }
  }
  for (const std::string& type : types) {
    while (targeted_of(state_.jobs, type) > capacity(type) && shrink_somebody(type)) {
    }
  }
}

// Devices that were taken from jobs for somebody of higher right go back to them, when there are some again.
void Dispatcher::give_back_owed() {
  for (auto& [id, job] : state_.jobs) {
    while (job.owed > 0 && is_up(job.phase) && !job.is_unwanted &&
           capacity(job.request.type) > targeted_of(state_.jobs, job.request.type)) {
      ++job.target[job.request.type];
      --job.owed;
    }
  }
}

// A job that runs keeps what its owner wants it to keep, at the cost of others.
void Dispatcher::keep_least(const std::vector<Job*>& jobs) {
  for (Job* job : jobs) {
    const std::string& type = job->request.type;
    while (is_up(job->phase) && job->phase != Phase::stopping && job->targeted() < job->request.least) {
      if (capacity(type) <= targeted_of(state_.jobs, type)) {
        const auto gives_way = [&](const Job* other) {
          const auto at = other->target.find(type);
          return other != job && at != other->target.end() &&
                 (!is_up(other->phase) || other->targeted() > other->request.least);
        };
        const auto last = std::find_if(jobs.rbegin(), jobs.rend(), gives_way);
        if (last == jobs.rend()) break;
        lessen(**last, type);
      }
      ++job->target[type];
      job->reason = "keeps what its owner asked for at least";
    }
  }
}

void Dispatcher::decide(double now) {
  stale_ = false;
  decided_ = now;
  std::map<JobId, std::map<std::string, int64_t>> before;
  for (const auto& [id, job] : state_.jobs) before[id] = job.target;
  make_fit();
  give_back_owed();
  std::vector<pool::Host> hosts;
  for (const Slot& slot : state_.slots) {
    const int64_t devices = capacity(slot.type());
    if (devices > 0 && std::ranges::find(hosts, slot.type(), &pool::Host::type) == hosts.end())
      hosts.push_back({slot.type(), devices});
  }
  const std::vector<Job*> all = queue(now);
  if (!hosts.empty()) {
    Round round{pool::Cluster(std::move(hosts))};
    const auto& types = round.cluster.types();
    for (Job* job : all) {
      if (std::ranges::find(types, job->request.type) != types.end()) round.jobs.push_back(job);
    }
    round.outlooks.reserve(round.jobs.size());
    const auto users = static_cast<int64_t>(std::max<size_t>(1, state_.usage.size()));
    for (const Job* job : round.jobs) {
      const Request& request = job->request;
      pool::Job& facts = round.facts.emplace_back();
      facts.name = request.name;
      facts.order = job->id;
      facts.submitted = job->submitted;
      facts.type = static_cast<size_t>(std::ranges::find(types, request.type) - types.begin());
      facts.most = std::min(request.most, request.ests);
      if (now < job->no_growth_before) facts.most = std::max<int64_t>(1, std::min(facts.most, job->targeted()));
      facts.requested = std::clamp<int64_t>(request.devices, 1,
                                            std::min(std::min(request.most, request.ests), capacity(request.type)));
      facts.mixes_types = request.mixes_types;
      facts.owner = request.user;
      facts.quota = round.cluster.devices() / users;
      facts.weight = std::exp2(static_cast<double>(request.priority)) * fair_share(request.user, now);
      facts.deadline = request.deadline;
      facts.placement = placement_of(*job, round.cluster);
      facts.attained = job->attained;
      facts.held = job->held;
      facts.lost = job->lost;
      facts.started = job->started;
      facts.starts = job->starts;
      facts.outlook = &round.outlooks.emplace_back(*job, round.cluster);
    }
    std::vector<const pool::Job*> facts;
    for (const pool::Job& job : round.facts) facts.push_back(&job);
    const pool::View view{round.cluster, facts, now, settings_.round,
                          state_.charge > 0 ? state_.charge : settings_.first_charge};
    const pool::Decision decision = policy_.policy->decide(view);
    ++decisions_;
    pool::FreeDevices free(round.cluster);
    for (size_t i = 0; i < round.jobs.size(); ++i) {
      free.take(decision.placements[i]);  // throws where a policy gives out more than there is
      Job& job = *round.jobs[i];
      const auto target = target_of(decision.placements[i], round.cluster);
      if (target != job.target) job.owed = 0;
      job.target = target;
      job.reason = decision.reasons[i];
    }
  }
  keep_least(all);
  for (auto& [id, job] : state_.jobs) {
    if (is_over(job.phase) || job.target == before[id]) continue;
    note(id, "devices", job.reason);
  }
}

}  // namespace estrain::dispatch

#include "core/dispatch/targets.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/dispatch/slots.h"

namespace estrain::dispatch {
namespace {

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

// One device less for a job of this type. Those that have not got theirs yet give way first, the newest of them before
// others; then whoever has most; what an owner wants to keep at least goes last.
bool shrink_somebody(State& state, const std::string& type) {
  Job* victim = nullptr;
  std::tuple<int, int64_t, JobId> best;
  for (auto& [id, job] : state.jobs) {
    const auto at = job.target.find(type);
    if (at == job.target.end() || at->second == 0) continue;
    const int64_t has = at->second;
    const int rank = has > held(state, id, type)                     ? 3
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

}  // namespace

double fair_share(const State& state, const std::string& user, double now) {
  double all = 0, own = 0;
  for (const auto& [name, usage] : state.usage) {
    const double left = usage.device_seconds * std::exp2(-std::max(0.0, now - usage.at) / Usage::kHalfLife);
    all += left;
    if (name == user) own = left;
  }
  if (all <= 0) return 1;
  return std::exp2(-own / all * static_cast<double>(state.usage.size()));
}

std::vector<Job*> queue(State& state, double now) {
  std::vector<Job*> jobs;
  std::map<std::string, double> shares;
  for (auto& [id, job] : state.jobs) {
    const bool may_run = is_up(job.phase) || (job.phase == Phase::waiting && job.not_before <= now);
    if (!may_run || job.is_unwanted) continue;
    if (job.request.type.empty() && !state.slots.empty()) {
      const auto cpu = std::ranges::find(state.slots, "cpu", &Slot::name);
      job.request.type = cpu != state.slots.end() ? "cpu" : state.slots.front().type();
    }
    shares.emplace(job.request.user, fair_share(state, job.request.user, now));
    jobs.push_back(&job);
  }
  std::ranges::stable_sort(jobs, [&](const Job* a, const Job* b) {
    if (a->request.priority != b->request.priority) return a->request.priority > b->request.priority;
    return shares[a->request.user] > shares[b->request.user];
  });
  return jobs;
}

// No more devices are meant for jobs than there are.
void make_fit(State& state) {
  std::vector<std::string> types;
  for (const auto& [id, job] : state.jobs) {
    for (const auto& [type, count] : job.target) {
      if (std::ranges::find(types, type) == types.end()) types.push_back(type);
    }
  }
  for (const std::string& type : types) {
    while (targeted_of(state.jobs, type) > capacity(state, type) && shrink_somebody(state, type)) {
    }
  }
}

// Devices that were taken from jobs for somebody of higher right go back to them, when there are some again.
void give_back_owed(State& state) {
  for (auto& [id, job] : state.jobs) {
    while (job.owed > 0 && is_up(job.phase) && !job.is_unwanted &&
           capacity(state, job.request.type) > targeted_of(state.jobs, job.request.type)) {
      ++job.target[job.request.type];
      --job.owed;
    }
  }
}

// A job that runs keeps what its owner wants it to keep, at the cost of others.
void keep_least(State& state, const std::vector<Job*>& jobs) {
  for (Job* job : jobs) {
    const std::string& type = job->request.type;
    while (is_up(job->phase) && job->phase != Phase::stopping && job->targeted() < job->request.least) {
      if (capacity(state, type) <= targeted_of(state.jobs, type)) {
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

}  // namespace estrain::dispatch

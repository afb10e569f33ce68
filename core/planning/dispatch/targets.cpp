#include "core/planning/dispatch/targets.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/planning/dispatch/homes.h"
#include "core/planning/dispatch/slots.h"
#include "core/planning/dispatch/turn.h"

namespace estrain::dispatch {
namespace {

// Takes a device of this group from a job's target. Jobs still without devices of their target give way first, of these
// jobs the newest; then the job with most devices. Devices within an owner's minimum go last.
bool shrink_somebody(State& state, const std::string& group) {
  Job* victim = nullptr;
  std::tuple<int, int64_t, JobId> best;
  for (auto& [id, job] : state.jobs) {
    const auto at = job.target.find(group);
    if (job.request.background || at == job.target.end() || at->second == 0) continue;
    const int64_t has = at->second;
    const int rank = has > held(state, id, group)                    ? 3
                     : has > std::max<int64_t>(1, job.request.least) ? 2
                     : has > job.request.least                       ? 1
                                                                     : 0;
    const std::tuple<int, int64_t, JobId> worth{rank, rank == 3 ? 0 : has, id};
    if (victim == nullptr || worth > best) victim = &job, best = worth;
  }
  if (victim == nullptr) return false;
  lessen(*victim, group);
  if (is_up(victim->phase)) ++victim->owed;
  return true;
}

// Returns the fewest GPUs of the host meant for the job that hold it, if those meant for it are too few; else 0. A job
// at work is held by its present GPUs.
int64_t least_on_gpus(const State& state, const Job& job) {
  if (gpus_hold(state, job, job.target) || job.target == held_by(state, job.id)) return 0;
  const std::optional<int64_t> fewest = fewest_on_gpus(state, job, job.target.begin()->first);
  return fewest && *fewest > job.targeted() ? *fewest : 0;
}

}  // namespace

int64_t wanted(const Job& job, const std::string& group) {
  const auto at = job.target.find(group);
  return at == job.target.end() ? 0 : at->second;
}

void lessen(Job& job, const std::string& group) {
  if (--job.target[group] == 0) job.target.erase(group);
}

FairShares::FairShares(const State& state, double now) {
  for (const auto& [user, usage] : state.usage) {
    used_[user] = usage.device_seconds * std::exp2(-std::max(0.0, now - usage.at) / Usage::kHalfLife);
    all_ += used_[user];
  }
}

double FairShares::of(const std::string& user) const {
  if (all_ <= 0) return 1;
  const auto own = used_.find(user);
  return std::exp2(-(own == used_.end() ? 0 : own->second) / all_ * static_cast<double>(used_.size()));
}

std::vector<Job*> queue(State& state, double now, bool guests) {
  struct Place {
    double share;
    Job* job;
  };
  std::vector<Place> places;
  const FairShares shares(state, now);
  for (auto& [id, job] : state.jobs) {
    const bool may_run = is_up(job.phase) || (job.phase == Phase::waiting && job.not_before <= now);
    if (!may_run || job.is_unwanted || job.request.background != guests) continue;
    if (job.request.type.empty() && !state.slots.empty()) {
      const auto cpu = std::ranges::find(state.slots, "cpu", &Slot::type);
      job.request.type = cpu != state.slots.end() ? "cpu" : state.slots.front().type();
      job.is_type_open = true;
    }
    places.push_back({shares.of(job.request.user), &job});
  }
  std::ranges::stable_sort(places, [](const Place& a, const Place& b) {
    return std::pair(a.job->request.priority, a.share) > std::pair(b.job->request.priority, b.share);
  });
  std::vector<Job*> jobs;
  for (const Place& place : places) jobs.push_back(place.job);
  return jobs;
}

// Shrinks targets until all targets together have no more devices than the pool.
void make_fit(State& state) {
  std::vector<std::string> groups;
  for (const auto& [id, job] : state.jobs) {
    if (job.request.background) continue;
    for (const auto& [group, count] : job.target) {
      if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
    }
  }
  for (const std::string& group : groups) {
    while (targeted_of(state, group) > capacity(state, group) && shrink_somebody(state, group)) {
    }
  }
}

// Gives devices that were taken from jobs for a user of higher right back to these jobs, as devices become available.
void give_back_owed(State& state, double now) {
  for (auto& [id, job] : state.jobs) {
    if (now < job.no_growth_before) continue;
    while (job.owed > 0 && is_up(job.phase) && !job.is_unwanted) {
      const auto group = spare_group(state, job);
      if (!group) break;
      ++job.target[*group];
      --job.owed;
    }
  }
}

void keep_least(State& state, const std::vector<Job*>& jobs, double now) {
  for (Job* job : jobs) {
    const int64_t has = std::ranges::count(state.slots, job->id, &Slot::holder);
    const int64_t wanted = std::max(job->request.least, least_on_gpus(state, *job));
    const int64_t least = now < job->no_growth_before ? std::min(wanted, has) : wanted;
    while (is_up(job->phase) && job->phase != Phase::stopping && job->targeted() < least) {
      std::optional<std::string> group = spare_group(state, *job);
      if (!group) {
        const auto gives_way = [&](const Job* other) {
          if (other == job || (is_up(other->phase) && other->targeted() <= other->request.least)) return false;
          for (const auto& [theirs, count] : other->target) {
            if (!may_take(*job, theirs) || !is_open_to(state, *job, host_in(theirs))) continue;
            Target rest = other->target;
            --rest[theirs];
            if (is_up(other->phase) && !gpus_hold(state, *other, rest)) continue;
            group = theirs;
            return true;
          }
          return false;
        };
        const auto last = std::find_if(jobs.rbegin(), jobs.rend(), gives_way);
        if (last == jobs.rend()) break;
        lessen(**last, *group);
      }
      ++job->target[*group];
      job->reason = job->targeted() > job->request.least ? "keeps as many GPUs as hold it"
                                                         : "keeps what its owner asked for at least";
    }
  }
}

}  // namespace estrain::dispatch

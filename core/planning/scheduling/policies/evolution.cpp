#include "core/planning/scheduling/policies/evolution.h"

#include <algorithm>

namespace estrain::scheduling {
namespace {

// Takes the last devices of a job, to keep the rest of the job together.
void take_from(Schedule& schedule, int32_t job, int64_t devices) {
  for (size_t i = schedule.size(); i-- > 0 && devices > 0;) {
    if (schedule[i] == job) schedule[i] = kIdle, --devices;
  }
}

double unit(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

void give_each_new_job_one(Schedule& schedule, const Evolving& jobs) {
  std::vector<int64_t> counts = devices_by_job(schedule, jobs.limits.size());
  for (size_t fresh = 0; fresh < counts.size(); ++fresh) {
    if (!jobs.is_new[fresh] || counts[fresh] > 0 || jobs.limits[fresh] == 0) continue;
    auto place = std::ranges::find(schedule, kIdle);
    if (place == schedule.end()) {
      // Takes from the jobs with the longest run; new jobs with a device keep the device.
      size_t oldest = counts.size();
      for (size_t job = 0; job < counts.size(); ++job) {
        if (counts[job] == 0 || jobs.is_new[job]) continue;
        if (oldest == counts.size() || jobs.held_seconds[job] > jobs.held_seconds[oldest]) oldest = job;
      }
      if (oldest == counts.size()) return;
      take_from(schedule, static_cast<int32_t>(oldest), 1);
      --counts[oldest];
      place = std::ranges::find(schedule, kIdle);
    }
    *place = static_cast<int32_t>(fresh);
    ++counts[fresh];
  }
}

void keep_limits(Schedule& schedule, const Evolving& jobs) {
  const std::vector<int64_t> counts = devices_by_job(schedule, jobs.limits.size());
  for (size_t job = 0; job < counts.size(); ++job) {
    if (counts[job] > jobs.limits[job]) take_from(schedule, static_cast<int32_t>(job), counts[job] - jobs.limits[job]);
  }
}

}  // namespace

std::vector<int64_t> devices_by_job(const Schedule& schedule, size_t jobs) {
  std::vector<int64_t> counts(jobs, 0);
  for (const int32_t job : schedule) {
    if (job != kIdle) ++counts[static_cast<size_t>(job)];
  }
  return counts;
}

void refresh(Schedule& schedule, const Evolving& jobs) {
  keep_limits(schedule, jobs);
  give_each_new_job_one(schedule, jobs);
  fill(schedule, jobs);
}

void fill(Schedule& schedule, const Evolving& jobs) {
  std::vector<int64_t> counts = devices_by_job(schedule, jobs.limits.size());
  std::vector<double> added(counts.size(), 0);
  const auto weigh = [&](size_t job) {
    if (counts[job] < jobs.limits[job]) added[job] = jobs.added(job, counts[job]);
  };
  bool is_weighed = false;
  for (int32_t& device : schedule) {
    if (device != kIdle) continue;
    if (!std::exchange(is_weighed, true)) {
      for (size_t job = 0; job < counts.size(); ++job) weigh(job);
    }
    size_t best = counts.size();
    for (size_t job = 0; job < counts.size(); ++job) {
      if (counts[job] >= jobs.limits[job]) continue;
      if (best == counts.size() || added[job] < added[best]) best = job;
    }
    if (best == counts.size()) return;
    device = static_cast<int32_t>(best);
    ++counts[best];
    weigh(best);
  }
}

std::pair<Schedule, Schedule> crossed(const Schedule& one, const Schedule& other, std::mt19937_64& random) {
  std::pair<Schedule, Schedule> children(one, other);
  for (size_t i = 0; i < one.size(); ++i) {
    if (random() & 1) std::swap(children.first[i], children.second[i]);
  }
  return children;
}

void mutate(Schedule& schedule, const Evolving& jobs, double rate, std::mt19937_64& random) {
  std::vector<bool> is_preempted(jobs.limits.size());
  for (size_t job = 0; job < is_preempted.size(); ++job) is_preempted[job] = unit(random) < rate;
  for (int32_t& device : schedule) {
    if (device != kIdle && is_preempted[static_cast<size_t>(device)]) device = kIdle;
  }
  keep_limits(schedule, jobs);
  fill(schedule, jobs);
}

void reorder(Schedule& schedule) {
  std::vector<int32_t> order;
  for (const int32_t job : schedule) {
    if (job != kIdle && std::ranges::find(order, job) == order.end()) order.push_back(job);
  }
  Schedule packed_schedule;
  packed_schedule.reserve(schedule.size());
  for (const int32_t job : order) {
    packed_schedule.insert(packed_schedule.end(), static_cast<size_t>(std::ranges::count(schedule, job)), job);
  }
  packed_schedule.resize(schedule.size(), kIdle);
  schedule = std::move(packed_schedule);
}

}  // namespace estrain::scheduling

#include "core/planning/scheduling/policies/deadline_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace estrain::scheduling {

int64_t power_of_two_below(int64_t devices) {
  return devices < 1 ? 0 : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(devices)));
}

DeadlinePlan::DeadlinePlan(const View& view, double slot)
    : view_(view),
      slot_(slot),
      devices_(view.cluster.devices()),
      shares_(view.jobs.size()),
      now_(view.jobs.size()),
      areas_(view.jobs.size()) {}

// Returns the devices in each slot if the job has `share` or as many as are free; nothing if this is not enough.
std::optional<std::vector<int64_t>> DeadlinePlan::fill(size_t index, int64_t share) const {
  const JobView& job = *view_.jobs[index];
  const Cluster& cluster = view_.cluster;
  std::vector<int64_t> shares;
  double left = 1;  // the part of the job's present rest
  const double until = *job.deadline - view_.now;
  int64_t before = devices_of(job.placement), last = -1;
  double whole = 0;  // seconds of the whole rest on `last` devices
  double owed = 0;   // of the charge of the last change
  for (size_t slot = 0; left > 0; ++slot) {
    const double begin = static_cast<double>(slot) * slot_, length = std::min(slot_, until - begin);
    if (length <= 0) return std::nullopt;
    const int64_t devices = power_of_two_below(std::min(share, free_in(slot)));
    shares.push_back(devices);
    if (devices == 0) {
      before = 0;
      continue;
    }
    if (devices != before) owed = view_.charge;
    before = devices;
    if (devices != last) whole = job.outlook->seconds_left(packed(cluster, job.type, devices)), last = devices;
    const double lost = std::min(owed, length);
    owed -= lost;
    left -= (length - lost) / whole;
    if (left <= 1e-12) return shares;
  }
  return shares;
}

bool DeadlinePlan::add(size_t job) {
  if (!view_.jobs[job]->deadline) return false;
  for (int64_t share = 1; share <= power_of_two_below(std::min(view_.jobs[job]->most, devices_)); share *= 2) {
    std::optional<std::vector<int64_t>> shares = fill(job, share);
    if (!shares) continue;
    if (taken_.size() < shares->size()) taken_.resize(shares->size());
    for (size_t slot = 0; slot < shares->size(); ++slot) {
      taken_[slot] += (*shares)[slot];
      areas_[job] += static_cast<double>((*shares)[slot]) * slot_;
    }
    now_[job] = shares->front();
    shares_[job] = std::move(*shares);
    return true;
  }
  return false;
}

void DeadlinePlan::remove(size_t job) {
  for (size_t slot = 0; slot < shares_[job].size(); ++slot) taken_[slot] -= shares_[job][slot];
  shares_[job].clear();
  now_[job] = 0;
  areas_[job] = 0;
}

}  // namespace estrain::scheduling

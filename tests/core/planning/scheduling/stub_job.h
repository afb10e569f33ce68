#pragma once
// Jobs for policies, with step times by number of devices.

#include <deque>
#include <limits>
#include <utility>
#include <vector>

#include "core/planning/scheduling/policy.h"

namespace estrain::scheduling {

class StubOutlook : public Outlook {
 public:
  // steps[d - 1]: seconds of a step on d devices; beyond, it cannot run.
  StubOutlook(std::vector<double> step_seconds, double steps) : step_seconds_(std::move(step_seconds)), steps_(steps) {}
  double seconds_left(const Shape& shape) const override { return step_seconds(shape.all_devices()) * steps_; }
  double step_seconds(int64_t devices) const override {
    const auto index = static_cast<size_t>(devices - 1);
    return index < step_seconds_.size() ? step_seconds_[index] : std::numeric_limits<double>::infinity();
  }
  double steps_left() const override { return steps_; }

 private:
  std::vector<double> step_seconds_;
  double steps_;
};

// A queue of jobs on a cluster; decisions take effect at once.
class StubPool {
 public:
  explicit StubPool(std::vector<Host> hosts) : cluster_(std::move(hosts)) {}

  JobView& add(int64_t requested, std::vector<double> step_seconds, double steps) {
    outlooks_.emplace_back(std::move(step_seconds), steps);
    JobView& job = jobs_.emplace_back();
    job.order = static_cast<int64_t>(jobs_.size()) - 1;
    job.requested = requested;
    job.most = cluster_.devices();
    job.outlook = &outlooks_.back();
    return job;
  }

  // Returns the number of devices that each job holds afterwards.
  std::vector<int64_t> decide(Policy& policy) {
    std::vector<const JobView*> view;
    for (const JobView& job : jobs_) view.push_back(&job);
    const Decision decision = policy.decide({cluster_, view, now, 60, 30});
    FreeDevices free(cluster_);
    std::vector<int64_t> devices;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      free.take(decision.placements[i]);
      jobs_[i].placement = decision.placements[i];
      devices.push_back(devices_of(jobs_[i].placement));
      reasons.assign(decision.reasons.begin(), decision.reasons.end());
    }
    return devices;
  }

  void remove(size_t index) { jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(index)); }
  std::deque<JobView>& jobs() { return jobs_; }
  std::vector<std::string_view> reasons;
  double now = 0;

 private:
  Cluster cluster_;
  std::deque<StubOutlook> outlooks_;
  std::deque<JobView> jobs_;
};

}  // namespace estrain::scheduling

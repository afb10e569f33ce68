// A policy for exact elastic jobs.
//
// Devices go where the sum of the jobs' worths grows most:
//
//   worth = weight (longer + makespan) one^alone left^-exponent
//
// `left` is the remaining time with the devices, `one` the remaining time on one device. Short jobs come first, but not
// alone, since all jobs are less efficient on more devices. With alone=0 only the remaining time counts; with
// alone=exponent only the speed-up, one / left; between the two, a job gets little if more devices hardly speed the job
// up, however short the job is. When a job does without a device-second, jobs that end later gain: `longer` is the
// number of jobs with at least as much left on one device, including the job, and the makespan counts as much as so
// many further jobs. makespan=0 leaves this factor out.
//
// A remaining time with another allocation than the current one includes `patience` times the charge: a job keeps its
// devices unless the change is worth the charge. No allocation is expected to last longer than `horizon`: a job with
// more left pays for a change once in each horizon. With `aging` a job counts for more the longer ago it was submitted:
// short jobs still come first, and the largest do not all end last.
//
// The greedy share-out gives a job several devices at once if that gains more per device, since two devices may be
// worth less than one, and four more than either. The exact share-out finds the largest sum; it is for a cluster of one
// type, and takes jobs x devices^2 steps, so large clusters are shared out greedily all the same.
//
// A job that mixes types may get devices of any type; every other job gets devices of its own type.
#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

#include "core/planning/scheduling/cluster.h"
#include "core/planning/scheduling/policies/policies.h"

namespace estrain::scheduling {
namespace {

struct Step {
  double gain = 0;  // per device
  size_t type = 0;
  int64_t devices = 0;
  size_t job = 0;

  // The largest gain is on top; the first job wins a tie.
  bool operator<(const Step& other) const { return gain != other.gain ? gain < other.gain : job > other.job; }
};

class ShareOut {
 public:
  ShareOut(const View& view, const EstrainOptions& options) : view_(view), options_(options) {
    for (size_t type = 0; type < num_types(); ++type) left_[type] = view.cluster.devices_of_type(type);
    for (const JobView* job : view.jobs) held_.push_back(shape_of(view.cluster, job->placement));
    shapes_.resize(view.jobs.size());
    worths_.resize(view.jobs.size(), 0);
    weigh();
  }

  // Returns the devices of each job, by type.
  std::vector<Shape> run() { return options_.exact && is_small() ? exactly() : greedily(); }

 private:
  size_t num_types() const { return view_.cluster.types().size(); }

  bool is_small() const {
    const auto devices = static_cast<double>(left_[0]);
    return num_types() == 1 && static_cast<double>(shapes_.size()) * devices * devices <= kMostSteps;
  }

  std::vector<Shape> greedily() {
    std::priority_queue<Step> steps;
    const auto propose = [&](size_t i) {
      const Step step = best_step(i);
      if (step.gain > 0) steps.push(step);
    };
    for (size_t i = 0; i < shapes_.size(); ++i) propose(i);
    while (!steps.empty()) {
      const Step best = steps.top();
      steps.pop();
      if (best.devices <= left_[best.type]) {
        shapes_[best.job] = grown(shapes_[best.job], best.type, best.devices);
        left_[best.type] -= best.devices;
        worths_[best.job] = worth(best.job, shapes_[best.job]);
      }
      propose(best.job);
    }
    return shapes_;
  }

  // Finds, job by job, the largest sum of worths of the jobs until then, for each number of these jobs' devices.
  std::vector<Shape> exactly() {
    const auto all = static_cast<size_t>(left_[0]);
    std::vector<double> best(all + 1, 0), before, worths(all + 1, 0);
    std::vector<std::vector<int64_t>> given(shapes_.size(), std::vector<int64_t>(all + 1, 0));
    for (size_t i = 0; i < shapes_.size(); ++i) {
      const size_t most = std::min(all, static_cast<size_t>(view_.jobs[i]->most));
      for (size_t count = 1; count <= most; ++count)
        worths[count] = worth(i, grown({}, 0, static_cast<int64_t>(count)));
      before = best;
      for (size_t devices = 1; devices <= all; ++devices) {
        for (size_t count = 1; count <= std::min(most, devices); ++count) {
          const double sum = before[devices - count] + worths[count];
          if (sum <= best[devices]) continue;
          best[devices] = sum;
          given[i][devices] = static_cast<int64_t>(count);
        }
      }
    }
    size_t devices = all;
    for (size_t i = shapes_.size(); i-- > 0;) {
      const int64_t count = given[i][devices];
      if (count > 0) shapes_[i] = grown({}, 0, count);
      devices -= static_cast<size_t>(count);
    }
    return shapes_;
  }

  Shape grown(Shape shape, size_t type, int64_t more) const {
    const Shape of_type = packed(view_.cluster, type, shape.devices[type] + more);
    shape.devices[type] = of_type.devices[type];
    shape.hosts[type] = of_type.hosts[type];
    return shape;
  }

  void weigh() {
    std::vector<double> one;
    for (const JobView* job : view_.jobs) one.push_back(time_on_one(*job));
    std::vector<double> sorted = one;
    std::ranges::sort(sorted);
    for (size_t i = 0; i < one.size(); ++i) {
      const JobView& job = *view_.jobs[i];
      const double age = std::max(0.0, view_.now - job.submitted) / kAge;
      double weight = job.weight * std::pow(1 + age, options_.aging);
      if (options_.makespan > 0) {
        const auto longer = sorted.end() - std::ranges::lower_bound(sorted, one[i]);
        weight *= static_cast<double>(longer) + options_.makespan;
      }
      if (options_.alone > 0) weight *= std::pow(one[i] + change_seconds(one[i]), options_.alone);
      weights_.push_back(weight);
    }
  }

  // Returns the time on one device, or on the fewest of 2, 4, 8... devices possible for the job, times the number.
  double time_on_one(const JobView& job) const {
    for (int64_t devices = 1; devices <= job.most; devices *= 2) {
      const double left = job.outlook->seconds_left(packed(view_.cluster, job.type, devices));
      if (std::isfinite(left)) return std::max(1.0, left * static_cast<double>(devices));
    }
    return 1;
  }

  double change_seconds(double left) const {
    return options_.patience * view_.charge * std::max(1.0, left / options_.horizon);
  }

  double worth(size_t i, const Shape& shape) const {
    double left = view_.jobs[i]->outlook->seconds_left(shape);
    if (!std::isfinite(left)) return 0;
    if (shape.devices != held_[i].devices) left += change_seconds(left);
    return weights_[i] * std::pow(std::max(left, 1.0), -options_.exponent);
  }

  Step best_step(size_t i) const {
    const JobView& job = *view_.jobs[i];
    Step best;
    for (size_t type = 0; type < num_types(); ++type) {
      if (type != job.type && !job.mixes_types) continue;
      const int64_t most = std::min(job.most - shapes_[i].all_devices(), left_[type]);
      for (int64_t more = 1; more <= most; ++more) {
        const double gain = (worth(i, grown(shapes_[i], type, more)) - worths_[i]) / static_cast<double>(more);
        if (gain > best.gain) best = {gain, type, more, i};
      }
    }
    return best;
  }

  static constexpr double kAge = 10'000;     // s
  static constexpr double kMostSteps = 4e6;  // of an exact share-out: some milliseconds

  const View& view_;
  const EstrainOptions& options_;
  std::array<int64_t, Cluster::kMostTypes> left_{};
  std::vector<Shape> held_, shapes_;
  std::vector<double> weights_, worths_;
};

class Estrain : public Policy {
 public:
  explicit Estrain(const EstrainOptions& options) : options_(options) {}

  bool at_events() const override { return true; }

  Decision decide(const View& view) override {
    const std::vector<Shape> shapes = is_plenty(view) ? all_they_can_use(view) : ShareOut(view, options_).run();
    Decision decision(view.jobs.size());
    FreeDevices free(view.cluster);
    std::vector<size_t> moving;
    for (size_t i = 0; i < view.jobs.size(); ++i) {
      const Placement& held = view.jobs[i]->placement;
      if (shapes[i].all_devices() == 0) {
        decision.reasons[i] = "waits: other jobs gain more from the devices";
      } else if (shape_of(view.cluster, held).devices == shapes[i].devices) {
        decision.placements[i] = held;
        decision.reasons[i] = "keeps its devices";
        free.take(held);
      } else {
        moving.push_back(i);
      }
    }
    // Large jobs first, while whole hosts are free.
    std::ranges::stable_sort(moving, std::greater<>(), [&](size_t i) { return shapes[i].all_devices(); });
    for (const size_t i : moving) {
      for (size_t type = 0; type < view.cluster.types().size(); ++type) {
        const Placement more = free.take_packed(type, shapes[i].devices[type], view.jobs[i]->placement);
        decision.placements[i].insert(decision.placements[i].end(), more.begin(), more.end());
      }
      decision.reasons[i] = "has the devices with which remaining times shrink most";
    }
    return decision;
  }

 private:
  // Returns whether nothing is to be decided: devices of one type suffice, and all running jobs are at their maximum.
  // (Most rounds of a large cluster are of this kind.)
  static bool is_plenty(const View& view) {
    if (view.cluster.types().size() > 1) return false;
    int64_t wanted = 0;
    for (const JobView* job : view.jobs) {
      wanted += job->most;
      if (wanted > view.cluster.devices()) return false;
      if (!job->placement.empty() && devices_of(job->placement) != job->most) return false;
    }
    return true;
  }

  static std::vector<Shape> all_they_can_use(const View& view) {
    std::vector<Shape> shapes;
    shapes.reserve(view.jobs.size());
    for (const JobView* job : view.jobs) {
      if (!job->placement.empty()) {
        shapes.push_back(shape_of(view.cluster, job->placement));
        continue;
      }
      Shape best = packed(view.cluster, 0, 1);
      for (int64_t devices = 2; devices <= job->most; ++devices) {
        const Shape other = packed(view.cluster, 0, devices);
        if (job->outlook->seconds_left(other) < job->outlook->seconds_left(best)) best = other;
      }
      shapes.push_back(best);
    }
    return shapes;
  }

  EstrainOptions options_;
};

}  // namespace

std::unique_ptr<Policy> make_estrain(const EstrainOptions& options) { return std::make_unique<Estrain>(options); }

}  // namespace estrain::scheduling

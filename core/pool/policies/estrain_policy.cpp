// A policy for exact elastic jobs.
//
// The next devices go where the sum over jobs of (remaining time)^-exponent grows most per device. So short jobs come
// first, but not alone, since all are less efficient on more devices. A job may get several devices at once, since two
// may be worth less than one, and four more than either. The remaining time with an allocation other than the current
// one includes `patience` times the charge: a job keeps its devices unless the change is worth it. With `aging` a job
// counts for more the longer ago it was submitted: short jobs still come first, and the largest do not all end last.
// With `tail` a job whose remaining time is near the longest one counts for more: the makespan gets shorter, and most
// jobs end later.
//
// A job that mixes types may get devices of any type; others get only their own.
#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

#include "core/pool/policies/policies.h"

namespace estrain::pool {
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
    for (const Job* job : view.jobs) held_.push_back(shape_of(view.cluster, job->placement));
    shapes_.resize(view.jobs.size());
    worths_.resize(view.jobs.size(), 0);
    weigh();
  }

  // The devices of each job, by type.
  std::vector<Shape> run() {
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

 private:
  size_t num_types() const { return view_.cluster.types().size(); }

  Shape grown(Shape shape, size_t type, int64_t more) const {
    const Shape of_type = packed(view_.cluster, type, shape.devices[type] + more);
    shape.devices[type] = of_type.devices[type];
    shape.hosts[type] = of_type.hosts[type];
    return shape;
  }

  void weigh() {
    std::vector<double> left(view_.jobs.size(), 0);
    for (size_t i = 0; i < left.size() && options_.tail > 0; ++i) {
      const Job& job = *view_.jobs[i];
      left[i] = job.outlook->seconds_left(packed(view_.cluster, job.type, std::min(job.most, kDevicesToCompare)));
      if (!std::isfinite(left[i])) left[i] = 0;
    }
    const double longest = std::max(1.0, left.empty() ? 0 : std::ranges::max(left));
    for (size_t i = 0; i < left.size(); ++i) {
      const double age = std::max(0.0, view_.now - view_.jobs[i]->submitted) / kAge, part = left[i] / longest;
      weights_.push_back(view_.jobs[i]->weight * std::pow(1 + age, options_.aging) * (1 + options_.tail * part * part));
    }
  }

  double worth(size_t i, const Shape& shape) const {
    double left = view_.jobs[i]->outlook->seconds_left(shape);
    if (shape.devices != held_[i].devices) left += options_.patience * view_.charge;
    return weights_[i] * std::pow(std::max(left, 1.0), -options_.exponent);
  }

  Step best_step(size_t i) const {
    const Job& job = *view_.jobs[i];
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

  static constexpr double kAge = 10'000;            // s
  static constexpr int64_t kDevicesToCompare = 16;  // on which remaining times are compared

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
  // With enough devices of one type, and all running jobs at their maximum, there is nothing to decide. (Most rounds of
  // a large cluster are like this.)
  static bool is_plenty(const View& view) {
    if (view.cluster.types().size() > 1) return false;
    int64_t wanted = 0;
    for (const Job* job : view.jobs) {
      wanted += job->most;
      if (wanted > view.cluster.devices()) return false;
      if (!job->placement.empty() && devices_of(job->placement) != job->most) return false;
    }
    return true;
  }

  static std::vector<Shape> all_they_can_use(const View& view) {
    std::vector<Shape> shapes;
    shapes.reserve(view.jobs.size());
    for (const Job* job : view.jobs) {
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

}  // namespace estrain::pool

#include "core/planning/scheduling/speed_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "core/planning/scheduling/linear_system.h"

namespace estrain::scheduling {
namespace {

constexpr double kSmall = 1e-8;
constexpr int kIterations = 40;

constexpr double kSameSeconds = 0.01;

bool is_near(double foretold, double measured) { return std::abs(foretold / measured - 1) < kSameSeconds; }

}  // namespace

double SpeedModel::predict_compute(const Parameters& p, double local) { return p[0] + p[1] * local; }

double SpeedModel::predict_step(const Parameters& p, const SpeedPoint& point, double local) {
  const double compute = predict_compute(p, local);
  if (point.devices <= 1) return compute;
  const double more = std::max(static_cast<double>(point.devices - 2), kSmall);
  const double network = point.hosts > 1 ? p[2] + p[3] * more : p[4] + p[5] * more;
  // Scaled by the larger value, to keep every power from overflowing.
  const double large = std::max(compute, network), small = std::min(compute, network);
  return large * std::pow(1 + std::pow(small / large, p[6]), 1 / p[6]);
}

double SpeedModel::compute_seconds(double local) const { return predict_compute(parameters_, local); }

double SpeedModel::step_seconds(int64_t hosts, int64_t devices, double local) const {
  return predict_step(parameters_, {hosts, devices, 1}, local);
}

bool SpeedModel::observe(const SpeedPoint& point, double compute_seconds, double step_seconds) {
  if (!points_.try_emplace(point, Times{compute_seconds, step_seconds}).second) return false;
  most_devices_ = std::max(most_devices_, point.devices);
  fit();
  return true;
}

double SpeedModel::loss(const Parameters& p) const {
  double sum = 0;
  for (const auto& [point, times] : points_) {
    const auto local = static_cast<double>(point.local);
    const double of_compute = std::log(predict_compute(p, local) / times.compute);
    const double of_step = std::log(predict_step(p, point, local) / times.step);
    sum += of_compute * of_compute + of_step * of_step;
  }
  const double n = p[3] / p[2], r = p[5] / p[4];
  return sum / static_cast<double>(points_.size()) + 1e-3 * (p[6] - 1) * (p[6] - 1) + 1e-2 * (n * n + r * r);
}

// The Levenberg-Marquardt method on the logarithms of the parameters.
void SpeedModel::fit() {
  std::array<bool, kParameters> fixed{};
  Parameters p = fitted_ ? parameters_ : Parameters{0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001};
  bool many_hosts = false, one_host = false, more_than_two = false, one_batch = true;
  double mean_compute = 0;
  for (const auto& [point, times] : points_) {
    many_hosts |= point.hosts > 1;
    one_host |= point.hosts == 1 && point.devices > 1;
    more_than_two |= point.devices > 2;
    one_batch &= point.local == points_.begin()->first.local;
    mean_compute += times.compute / static_cast<double>(points_.size());
  }
  const auto fix = [&](size_t index, double value) { fixed[index] = true, p[index] = value; };
  const auto release = [&](size_t index, double value) {
    if (p[index] <= 2 * kSmall) p[index] = value;
  };
  if (one_batch) fix(0, mean_compute / 2);
  if (many_hosts)
    release(2, 0.1);
  else
    fix(2, kSmall);
  if (one_host)
    release(4, 0.1);
  else
    fix(4, kSmall);
  if (many_hosts && more_than_two)
    release(3, 0.01);
  else
    fix(3, kSmall * kSmall);
  if (one_host && more_than_two)
    release(5, 0.01);
  else
    fix(5, kSmall * kSmall);

  const auto clamp = [](Parameters& q) {
    for (size_t i = 0; i < 6; ++i) q[i] = std::max(q[i], kSmall * kSmall);
    q[6] = std::clamp(q[6], 1.0, 10.0);
  };
  const auto residuals = [&](const Parameters& q, std::vector<double>& all) {
    all.clear();
    const double scale = 1 / std::sqrt(static_cast<double>(points_.size()));
    for (const auto& [point, times] : points_) {
      const auto local = static_cast<double>(point.local);
      all.push_back(scale * std::log(predict_compute(q, local) / times.compute));
      all.push_back(scale * std::log(predict_step(q, point, local) / times.step));
    }
    all.push_back(std::sqrt(1e-3) * (q[6] - 1));
    all.push_back(0.1 * q[3] / q[2]);
    all.push_back(0.1 * q[5] / q[4]);
  };
  std::vector<double> at, moved;
  std::array<std::vector<double>, kParameters> slopes;
  double damping = 1e-2, best = loss(p);
  for (int iteration = 0; iteration < kIterations && damping < 1e8; ++iteration) {
    residuals(p, at);
    for (size_t i = 0; i < kParameters; ++i) {
      slopes[i].assign(at.size(), 0);
      if (fixed[i]) continue;
      Parameters q = p;
      const double step = 1e-6;
      q[i] *= std::exp(step);
      residuals(q, moved);
      for (size_t k = 0; k < at.size(); ++k) slopes[i][k] = (moved[k] - at[k]) / step;
    }
    bool improved = false;
    while (!improved && damping < 1e8) {
      std::array<std::array<double, kParameters>, kParameters> a{};
      std::array<double, kParameters> b{};
      for (size_t i = 0; i < kParameters; ++i) {
        for (size_t j = 0; j < kParameters; ++j) {
          for (size_t k = 0; k < at.size(); ++k) a[i][j] += slopes[i][k] * slopes[j][k];
        }
        for (size_t k = 0; k < at.size(); ++k) b[i] -= slopes[i][k] * at[k];
        a[i][i] += fixed[i] ? 1 : damping * (a[i][i] + 1e-6);
      }
      Parameters q = p;
      if (solve(a, b)) {
        for (size_t i = 0; i < kParameters; ++i) q[i] *= fixed[i] ? 1 : std::exp(std::clamp(b[i], -2.0, 2.0));
        clamp(q);
      }
      const double loss_there = loss(q);
      improved = loss_there < best;
      damping = improved ? std::max(damping / 5, 1e-8) : damping * 5;
      if (!improved) continue;
      const bool settled = best - loss_there < 1e-9;
      p = q, best = loss_there;
      if (settled) iteration = kIterations;
    }
  }
  parameters_ = p;
  fitted_ = true;
}

bool MeasuredSpeeds::is_foretold(const SpeedPoint& point, double compute_seconds, double step_seconds) const {
  // More devices than ever before are always news: limits on growth depend on the number.
  if (point.devices > model_.most_devices()) return false;
  const auto local = static_cast<double>(point.local);
  return is_near(model_.compute_seconds(local), compute_seconds) &&
         is_near(this->step_seconds(point.hosts, point.devices, local), step_seconds);
}

bool MeasuredSpeeds::observe(const SpeedPoint& point, double compute_seconds, double step_seconds) {
  Steps& steps = steps_[{point.hosts, point.devices}];
  if (steps.contains(point.local) || is_foretold(point, compute_seconds, step_seconds)) return false;
  steps[point.local] = step_seconds;
  model_.observe(point, compute_seconds, step_seconds);
  return true;
}

double MeasuredSpeeds::ratio(int64_t hosts, int64_t devices, const Steps::value_type& measured) const {
  return measured.second / model_.step_seconds(hosts, devices, static_cast<double>(measured.first));
}

double MeasuredSpeeds::step_seconds(int64_t hosts, int64_t devices, double local) const {
  const double foretold = model_.step_seconds(hosts, devices, local);
  const auto found = steps_.find({hosts, devices});
  if (found == steps_.end() || found->second.empty()) return foretold;
  const Steps& steps = found->second;
  const auto above = steps.lower_bound(static_cast<int64_t>(std::ceil(local)));
  if (above == steps.end()) return foretold * ratio(hosts, devices, *steps.rbegin());
  if (above == steps.begin()) return foretold * ratio(hosts, devices, *above);
  const auto below = std::prev(above);
  const auto from = static_cast<double>(below->first), to = static_cast<double>(above->first);
  const double part = (local - from) / (to - from);
  return foretold * std::lerp(ratio(hosts, devices, *below), ratio(hosts, devices, *above), part);
}

}  // namespace estrain::scheduling

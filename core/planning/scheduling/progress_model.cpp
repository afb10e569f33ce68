#include "core/planning/scheduling/progress_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "core/planning/scheduling/linear_system.h"

namespace estrain::scheduling {
namespace {

constexpr double kSame = 1e-6;          // part of a mean: a figure that differs by less is the same for all
constexpr double kWorthOfFunction = 6;  // of log likelihood: one for each parameter
// Of equal choices, as after a single job, the first is taken.
constexpr std::array kConfidences = {1.0, 4.0, 16.0, 1.0 / 4, 1.0 / 16, 1.0 / 64};

// Derivative of lgamma, by recurrence and its asymptotic series.
double digamma(double x) {
  double below = 0;
  for (; x < 8; ++x) below -= 1 / x;
  const double f = 1 / (x * x);
  return below + std::log(x) - 0.5 / x - f * (1.0 / 12 - f * (1.0 / 120 - f / 252));
}

double trigamma(double x) {
  double above = 0;
  for (; x < 8; ++x) above += 1 / (x * x);
  const double f = 1 / (x * x);
  return above + 1 / x + f / 2 + f / x * (1.0 / 6 - f * (1.0 / 30 - f / 42));
}

double epochs_done(const ProgressModel::Signs& signs) { return std::max(1.0, signs.processed / signs.epoch_size); }

}  // namespace

double Beta::log_density(double progress) const {
  return std::lgamma(alpha + beta) - std::lgamma(alpha) - std::lgamma(beta) + (alpha - 1) * std::log(progress) +
         (beta - 1) * std::log1p(-progress);
}

ProgressModel::Vector ProgressModel::features(const Signs& signs) const {
  Vector x = {1, signs.epoch_size, signs.initial_loss, signs.processed, signs.loss_improvement, signs.accuracy};
  for (size_t k = 1; k < kFeatures; ++k) x[k] = (x[k] - mean_[k]) / deviation_[k];
  return x;
}

double ProgressModel::linear(const Vector& x) const {
  double sum = 0;
  for (size_t k = 0; k < kFeatures; ++k) sum += weights_[k] * x[k];
  return sum;
}

Beta ProgressModel::predict(const Signs& signs) const { return beta_of(signs, epochs_to_come(signs)); }

double ProgressModel::epochs_to_come(const Signs& signs) const {
  if (ends_alike_) return (end_ - signs.processed) / signs.epoch_size;
  return is_fitted_ ? linear(features(signs)) : epochs_done(signs);
}

Beta ProgressModel::beta_of(const Signs& signs, double epochs_to_come) const {
  return {std::max(1.0, confidence_ * epochs_done(signs)), std::max(1.0, confidence_ * epochs_to_come)};
}

ProgressModel ProgressModel::fit_with(const std::vector<Logged>& logs, double confidence, bool alike) {
  ProgressModel model;
  model.confidence_ = confidence;
  if (logs.empty()) return model;
  model.is_fitted_ = true;
  model.ends_alike_ = alike;
  if (!alike) {
    model.fit_linear(logs);
    return model;
  }
  for (const Logged& log : logs) model.end_ += log.signs.processed / log.progress / static_cast<double>(logs.size());
  return model;
}

// Takes Newton's steps, halved until the likelihood grows. The linear function has no slope but upwards below 1.
void ProgressModel::fit_linear(const std::vector<Logged>& logs) {
  mean_.fill(0);
  deviation_.fill(1);
  const auto count = static_cast<double>(logs.size());
  std::vector<Vector> x;
  for (const Logged& log : logs) x.push_back(features(log.signs));
  Vector squares{};
  for (const Vector& one : x) {
    for (size_t k = 1; k < kFeatures; ++k) mean_[k] += one[k] / count;
  }
  for (const Vector& one : x) {
    for (size_t k = 1; k < kFeatures; ++k) squares[k] += (one[k] - mean_[k]) * (one[k] - mean_[k]) / count;
  }
  for (size_t k = 1; k < kFeatures; ++k) {
    const double deviation = std::sqrt(squares[k]);
    deviation_[k] = deviation > kSame * std::abs(mean_[k]) ? deviation : 1;
  }
  for (size_t i = 0; i < x.size(); ++i) x[i] = features(logs[i].signs);

  const auto likelihood = [&] {
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      sum += beta_of(logs[i].signs, linear(x[i])).log_density(logs[i].progress);
    }
    return sum / count;
  };
  weights_[0] = 10;
  double best = likelihood();
  constexpr int kSteps = 50;
  for (int step = 0; step < kSteps; ++step) {
    Vector slope{};
    std::array<Vector, kFeatures> curvature{};
    for (size_t k = 0; k < kFeatures; ++k) curvature[k][k] = 1e-6;
    for (size_t i = 0; i < x.size(); ++i) {
      const double to_come = linear(x[i]);
      const Beta beta = beta_of(logs[i].signs, to_come);
      const double all = beta.alpha + beta.beta;
      const double rise = confidence_ * (digamma(all) - digamma(beta.beta) + std::log1p(-logs[i].progress));
      if (confidence_ * to_come <= 1 && rise < 0) continue;
      const double bend = confidence_ * confidence_ * std::max(1e-9, trigamma(beta.beta) - trigamma(all));
      for (size_t k = 0; k < kFeatures; ++k) {
        slope[k] += rise * x[i][k] / count;
        for (size_t l = 0; l < kFeatures; ++l) curvature[k][l] += bend * x[i][k] * x[i][l] / count;
      }
    }
    const Vector from = weights_;
    if (!solve(curvature, slope)) break;
    double length = 1, reached = best;
    for (; length > 1e-3; length /= 2) {
      for (size_t k = 0; k < kFeatures; ++k) weights_[k] = from[k] + length * slope[k];
      reached = likelihood();
      if (reached > best) break;
    }
    if (!(reached > best)) {
      weights_ = from;
      break;
    }
    const double gained = std::exchange(best, reached);
    if (best - gained < 1e-7) break;
  }
}

double ProgressModel::likelihood_of_each_by_others(const std::vector<Logged>& logs, double confidence, bool alike) {
  std::set<int64_t> jobs;
  for (const Logged& log : logs) jobs.insert(log.job);
  double sum = 0;
  for (const int64_t job : jobs) {
    std::vector<Logged> others;
    for (const Logged& log : logs) {
      if (log.job != job) others.push_back(log);
    }
    const ProgressModel model = fit_with(others, confidence, alike);
    for (const Logged& log : logs) {
      if (log.job == job) sum += model.predict(log.signs).log_density(log.progress);
    }
  }
  return sum;
}

ProgressModel ProgressModel::fit(const std::vector<Logged>& logs) {
  double best = 1, best_likelihood = -std::numeric_limits<double>::infinity();
  bool is_best_alike = false;
  for (const bool alike : {true, false}) {
    for (const double confidence : kConfidences) {
      const double likelihood = likelihood_of_each_by_others(logs, confidence, alike);
      const double margin = is_best_alike && !alike ? kWorthOfFunction : 0;
      if (likelihood > best_likelihood + margin) best = confidence, is_best_alike = alike, best_likelihood = likelihood;
    }
  }
  return fit_with(logs, best, is_best_alike);
}

Beta constant_beta(const std::vector<ProgressModel::Logged>& logs) {
  const auto count = static_cast<double>(logs.size());
  double log_mean = 0, rest_mean = 0;
  for (const ProgressModel::Logged& log : logs) {
    log_mean += std::log(log.progress) / count;
    rest_mean += std::log1p(-log.progress) / count;
  }
  Beta beta;
  for (int step = 0; step < 200; ++step) {
    const double all = digamma(beta.alpha + beta.beta), bend = trigamma(beta.alpha + beta.beta);
    std::array<std::array<double, 2>, 2> curvature = {
        {{trigamma(beta.alpha) - bend, -bend}, {-bend, trigamma(beta.beta) - bend}}};
    std::array<double, 2> slope = {all - digamma(beta.alpha) + log_mean, all - digamma(beta.beta) + rest_mean};
    if (!solve(curvature, slope)) break;
    beta.alpha = std::max(beta.alpha / 2, beta.alpha + slope[0]);
    beta.beta = std::max(beta.beta / 2, beta.beta + slope[1]);
  }
  return beta;
}

}  // namespace estrain::scheduling

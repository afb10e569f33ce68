#include "core/planning/scheduling/progress_model.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

namespace estrain::scheduling {
namespace {

using Logged = ProgressModel::Logged;

// A job of so many epochs; its accuracy tells its progress.
std::vector<Logged> logs_of(double epochs, double epoch_size) {
  std::vector<Logged> logs;
  for (double epoch = 1; epoch < epochs; ++epoch) {
    const double progress = epoch / epochs;
    logs.push_back({static_cast<int64_t>(epochs),
                    {epoch_size, 2.3, epoch * epoch_size, 0.6 * progress, 0.1 + 0.8 * progress},
                    progress});
  }
  return logs;
}

std::vector<Logged> many_logs() {
  std::vector<Logged> all;
  for (const double epochs : {10.0, 14.0, 20.0, 25.0, 33.0}) {
    const std::vector<Logged> one = logs_of(epochs, 1000 * epochs);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

double likelihood(const std::vector<Logged>& logs, const auto& predict) {
  double sum = 0;
  for (const Logged& log : logs) sum += predict(log.signs).log_density(log.progress);
  return sum;
}

TEST_CASE("a density is one: it sums to 1, and its mean is where it should be") {
  for (const Beta& beta : {Beta{1, 1}, Beta{2, 5}, Beta{30, 4}}) {
    double all = 0, mean = 0;
    constexpr int kParts = 20000;
    for (int part = 0; part < kParts; ++part) {
      const double at = (part + 0.5) / kParts;
      all += std::exp(beta.log_density(at)) / kParts;
      mean += at * std::exp(beta.log_density(at)) / kParts;
    }
    CHECK(all == doctest::Approx(1).epsilon(1e-4));
    CHECK(mean == doctest::Approx(beta.mean()).epsilon(1e-4));
  }
}

TEST_CASE("both parameters are at least 1, whatever a job shows") {
  const ProgressModel model = ProgressModel::fit(many_logs());
  for (const double scale : {1e-6, 1.0, 1e6}) {
    const Beta beta = model.predict({1000 * scale, 2.3 * scale, 10 * scale, -scale, scale});
    CHECK(beta.alpha >= 1);
    CHECK(beta.beta >= 1);
  }
  const Beta unknown = ProgressModel().predict({100, 2, 700, 0.1, 0.1});
  CHECK(unknown.mean() == 0.5);
}

TEST_CASE("a job that was not seen is foretold better than by a distribution that knows nothing of it") {
  const std::vector<Logged> known = many_logs(), fresh = logs_of(17, 17000);
  const ProgressModel model = ProgressModel::fit(known);
  const Beta constant = constant_beta(known);
  const double ours = likelihood(fresh, [&](const auto& signs) { return model.predict(signs); });
  const double theirs = likelihood(fresh, [&](const auto&) { return constant; });
  CHECK(ours > theirs);
  // Further on means less to come.
  CHECK(model.predict(fresh[2].signs).mean() < model.predict(fresh[12].signs).mean());
}

TEST_CASE("where jobs that show the same end at different times, less is believed") {
  CHECK(ProgressModel::fit(many_logs()).confidence() >= 1);
  std::vector<Logged> logs;
  for (const double epochs : {8.0, 30.0, 90.0}) {
    for (Logged log : logs_of(epochs, 1000)) {
      log.signs.accuracy = log.signs.loss_improvement = 0.1;
      logs.push_back(log);
    }
  }
  CHECK(ProgressModel::fit(logs).confidence() < 1);
}

TEST_CASE("jobs that end alike whatever they show are expected to end as they do in the mean") {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> any(0, 1);
  std::vector<Logged> logs;
  for (int64_t job = 0; job < 6; ++job) {
    const double epochs = 18 + static_cast<double>(job);
    for (double epoch = 2; epoch < epochs; epoch += 3)
      logs.push_back({job, {100, 2, 100 * epoch, any(random), any(random)}, epoch / epochs});
  }
  const ProgressModel model = ProgressModel::fit(logs);
  CHECK(model.ends_alike());
  CHECK(model.confidence() >= 1);
  CHECK(model.epochs_to_come({100, 2, 500, 0.9, 0.1}) == doctest::Approx(20.5 - 5).epsilon(0.05));
  CHECK(model.epochs_to_come({50, 2, 500, 0.9, 0.1}) == doctest::Approx(41 - 10).epsilon(0.05));
  CHECK_FALSE(ProgressModel::fit(many_logs()).ends_alike());
}

TEST_CASE("a constant distribution is the best of its kind") {
  const std::vector<Logged> logs = many_logs();
  const Beta best = constant_beta(logs);
  const auto of = [&](const Beta& beta) { return likelihood(logs, [&](const auto&) { return beta; }); };
  for (const double factor : {0.9, 1.1}) {
    CHECK(of(best) > of({best.alpha * factor, best.beta}));
    CHECK(of(best) > of({best.alpha, best.beta * factor}));
  }
}

TEST_CASE("the same logs give the same model") {
  const ProgressModel::Signs signs{5000, 2.3, 40000, 0.4, 0.6};
  CHECK(ProgressModel::fit(many_logs()).predict(signs).beta == ProgressModel::fit(many_logs()).predict(signs).beta);
}

}  // namespace
}  // namespace estrain::scheduling

#include "core/engine/optim/plateau.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace estrain;
using namespace estrain::optim;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

spec::ScheduleSection plateau() {
  spec::ScheduleSection settings;
  settings.name = spec::ScheduleKind::plateau;
  settings.patience = 1;
  return settings;
}

// The first group's rate after each metric.
std::vector<double> rates_of(const spec::ScheduleSection& settings, const std::vector<double>& metrics) {
  PlateauState state = plateau_start(settings);
  std::vector<double> rates = {0.5, 0.25}, first;
  for (const double metric : metrics) {
    plateau_step(settings, metric, state, rates);
    CHECK(rates[1] == rates[0] / 2);
    first.push_back(rates[0]);
  }
  return first;
}

using Rates = std::vector<double>;

}  // namespace

TEST_CASE("the rate drops when more evaluations than the patience were no better") {
  CHECK(rates_of(plateau(), {1, 0.9, 0.9, 0.9, 0.8, 0.8}) == Rates{0.5, 0.5, 0.5, 0.05, 0.05, 0.05});
  spec::ScheduleSection hasty = plateau();
  hasty.patience = 0;
  CHECK(rates_of(hasty, {1, 1, 0.5}) == Rates{0.5, 0.05, 0.05});
}

TEST_CASE("an accuracy has to rise") {
  spec::ScheduleSection settings = plateau();
  settings.metric = spec::Metric::accuracy;
  CHECK(rates_of(settings, {0.1, 0.2, 0.3, 0.3, 0.3}) == Rates{0.5, 0.5, 0.5, 0.5, 0.05});
}

TEST_CASE("better is what passes the threshold, a part of the best or a difference to it") {
  spec::ScheduleSection settings = plateau();
  settings.patience = 0;
  settings.threshold = 0.5;
  CHECK(rates_of(settings, {8, 4.5}) == Rates{0.5, 0.05});
  CHECK(rates_of(settings, {8, 3.5}) == Rates{0.5, 0.5});
  settings.threshold_mode = spec::ThresholdMode::absolute;
  CHECK(rates_of(settings, {8, 7.6}) == Rates{0.5, 0.05});
  CHECK(rates_of(settings, {8, 7.4}) == Rates{0.5, 0.5});
}

TEST_CASE("after a drop, evaluations of the cooldown do not count") {
  spec::ScheduleSection settings = plateau();
  settings.patience = 0;
  settings.cooldown = 2;
  settings.factor = 0.5;
  CHECK(rates_of(settings, {1, 1, 1, 1, 1}) == Rates{0.5, 0.25, 0.25, 0.25, 0.125});
}

TEST_CASE("the rate falls no further than its lowest, and no evaluation that is NaN is better") {
  spec::ScheduleSection settings = plateau();
  settings.patience = 0;
  settings.factor = 0.5;
  settings.min_lr = 0.2;
  PlateauState state = plateau_start(settings);
  std::vector<double> rates = {0.5};
  for (const double metric : {1.0, not_a_number, not_a_number, 1.0}) plateau_step(settings, metric, state, rates);
  CHECK(rates[0] == 0.2);
}

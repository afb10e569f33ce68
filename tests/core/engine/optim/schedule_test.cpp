#include "core/engine/optim/schedule.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/base/error.h"

using namespace estrain;
using namespace estrain::optim;
using spec::ScheduleKind;

namespace {

struct Golden {
  spec::ScheduleSection settings;
  std::vector<double> lrs;  // before the first call of scheduler.step() and after each
};

// torch.optim.lr_scheduler 2.11, base lr 0.05 (scripts/peers/schedule_bits.py --golden).
const std::vector<Golden> golden = {
    {{.name = ScheduleKind::step, .period = 3},
     {0x1.999999999999ap-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5, 0x1.47ae147ae147cp-8, 0x1.47ae147ae147cp-8,
      0x1.47ae147ae147cp-8, 0x1.0624dd2f1a9fdp-11, 0x1.0624dd2f1a9fdp-11, 0x1.0624dd2f1a9fdp-11, 0x1.a36e2eb1c432fp-15,
      0x1.a36e2eb1c432fp-15, 0x1.a36e2eb1c432fp-15}},
    {{.name = ScheduleKind::step, .period = 2, .warmup = 3},
     {0x1.47ae147ae147cp-8, 0x1.47ae147ae147bp-6, 0x1.1eb851eb851ecp-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5,
      0x1.47ae147ae147cp-8, 0x1.47ae147ae147cp-8, 0x1.0624dd2f1a9fdp-11, 0x1.0624dd2f1a9fdp-11, 0x1.a36e2eb1c432fp-15,
      0x1.a36e2eb1c432fp-15, 0x1.4f8b588e368f3p-18}},
    {{.name = ScheduleKind::cosine, .period = 5},
     {0x1.999999999999ap-5, 0x1.727c9716ffb77p-5, 0x1.0c1630b099510p-5, 0x1.1b06d1d200914p-6, 0x1.38e81414cf11dp-8,
      0x0.0p+0, 0x1.38e81414cf11ap-8, 0x1.1b06d1d200916p-6, 0x1.0c1630b099513p-5, 0x1.727c9716ffb7bp-5,
      0x1.999999999999ep-5, 0x1.727c9716ffb7dp-5}},
    {{.name = ScheduleKind::cosine, .period = 4, .warmup = 2},
     {0x1.47ae147ae147cp-8, 0x1.c28f5c28f5c2ap-6, 0x1.999999999999ap-5, 0x1.5d9d8f5cc7e52p-5, 0x1.999999999999ap-6,
      0x1.dfe051e68da40p-8, 0x0.0p+0, 0x1.dfe051e68da3dp-8, 0x1.999999999999bp-6, 0x1.5d9d8f5cc7e54p-5,
      0x1.999999999999cp-5, 0x1.5d9d8f5cc7e54p-5}},
    {{.name = ScheduleKind::linear, .period = 5},
     {0x1.1111111111111p-6, 0x1.7e4b17e4b17e5p-6, 0x1.eb851eb851eb9p-6, 0x1.2c5f92c5f92c7p-5, 0x1.62fc962fc9631p-5,
      0x1.999999999999ap-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5,
      0x1.999999999999ap-5, 0x1.999999999999ap-5}},
    {{.name = ScheduleKind::linear, .period = 3, .warmup = 3},
     {0x1.47ae147ae147cp-8, 0x1.47ae147ae147bp-6, 0x1.1eb851eb851ecp-5, 0x1.1111111111111p-6, 0x1.c71c71c71c71dp-6,
      0x1.3e93e93e93e94p-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5,
      0x1.999999999999ap-5, 0x1.999999999999ap-5}},
    {{.name = ScheduleKind::constant, .warmup = 4},
     {0x1.47ae147ae147cp-8, 0x1.0a3d70a3d70a5p-6, 0x1.c28f5c28f5c2bp-6, 0x1.3d70a3d70a3d9p-5, 0x1.999999999999ap-5,
      0x1.999999999999ap-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5,
      0x1.999999999999ap-5, 0x1.999999999999ap-5}},
    {{.name = ScheduleKind::multistep, .milestones = {2, 5, 5, 9}},
     {0x1.999999999999ap-5, 0x1.999999999999ap-5, 0x1.47ae147ae147cp-8, 0x1.47ae147ae147cp-8, 0x1.47ae147ae147cp-8,
      0x1.a36e2eb1c4330p-15, 0x1.a36e2eb1c4330p-15, 0x1.a36e2eb1c4330p-15, 0x1.a36e2eb1c4330p-15, 0x1.4f8b588e368f4p-18,
      0x1.4f8b588e368f4p-18, 0x1.4f8b588e368f4p-18}},
    {{.name = ScheduleKind::multistep, .milestones = {1, 4}, .warmup = 3},
     {0x1.47ae147ae147cp-8, 0x1.47ae147ae147bp-6, 0x1.1eb851eb851ecp-5, 0x1.999999999999ap-5, 0x1.47ae147ae147cp-8,
      0x1.47ae147ae147cp-8, 0x1.47ae147ae147cp-8, 0x1.0624dd2f1a9fdp-11, 0x1.0624dd2f1a9fdp-11, 0x1.0624dd2f1a9fdp-11,
      0x1.0624dd2f1a9fdp-11, 0x1.0624dd2f1a9fdp-11}},
    {{.name = ScheduleKind::polynomial, .period = 7},
     {0x1.999999999999ap-5, 0x1.5f15f15f15f17p-5, 0x1.2492492492493p-5, 0x1.d41d41d41d41ep-6, 0x1.5f15f15f15f17p-6,
      0x1.d41d41d41d41ep-7, 0x1.d41d41d41d422p-8, 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, 0x0.0p+0}},
    {{.name = ScheduleKind::polynomial, .period = 5, .power = 0.9, .warmup = 2},
     {0x1.47ae147ae147cp-8, 0x1.c28f5c28f5c2ap-6, 0x1.999999999999ap-5, 0x1.4f12fc15f00c1p-5, 0x1.02a3e5f0190a0p-5,
      0x1.671fa3b356279p-6, 0x1.80e62dbaa7fa3p-7, 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, 0x0.0p+0, 0x0.0p+0}},
    {{.name = ScheduleKind::onecycle, .period = 12},
     {0x1.0624dd2f1aa00p-9, 0x1.1e8c35112091cp-6, 0x1.6827bb43a90aap-5, 0x1.975004163d23ap-5, 0x1.7e2980338a523p-5,
      0x1.4c7db37a37094p-5, 0x1.092a9ba525fb4p-5, 0x1.7afe0852c966fp-6, 0x1.cfc4634082376p-7, 0x1.b561115878d95p-8,
      0x1.c513901a4821cp-10, 0x1.ad7f29abcaf48p-23}},
    {{.name = ScheduleKind::onecycle, .period = 12, .anneal_strategy = spec::Anneal::linear, .three_phase = true},
     {0x1.0624dd2f1a9fcp-9, 0x1.4f3de9a1296eep-6, 0x1.3edb9bce37c4ep-5, 0x1.5d1af06758610p-5, 0x1.8bbc92d36aa73p-6,
      0x1.750d136092318p-8, 0x1.c3faca09ab556p-10, 0x1.69981d9ffef0cp-10, 0x1.0f357136528c2p-10, 0x1.69a589994c4f2p-11,
      0x1.69c0618be70c0p-12, 0x1.ad7f29abcc000p-23}},
    {{.name = ScheduleKind::exponential, .gamma = 0.7},
     {0x1.999999999999ap-5, 0x1.1eb851eb851ebp-5, 0x1.916872b020c49p-6, 0x1.18fc504816f00p-6, 0x1.89613d31b9b66p-7,
      0x1.135daad601ffap-7, 0x1.8183225ecf991p-8, 0x1.0ddbcb425e1e5p-8, 0x1.79cd4fc35090dp-9, 0x1.08761e3beb989p-9,
      0x1.723ef720b03bfp-10, 0x1.032c1363ae905p-10}},
    {{.name = ScheduleKind::exponential, .gamma = 0.7, .warmup = 3},
     {0x1.47ae147ae147cp-8, 0x1.47ae147ae147bp-6, 0x1.1eb851eb851ecp-5, 0x1.999999999999ap-5, 0x1.1eb851eb851ebp-5,
      0x1.916872b020c49p-6, 0x1.18fc504816f00p-6, 0x1.89613d31b9b66p-7, 0x1.135daad601ffap-7, 0x1.8183225ecf991p-8,
      0x1.0ddbcb425e1e5p-8, 0x1.79cd4fc35090dp-9}},
    {{.name = ScheduleKind::restarts, .period = 3, .period_factor = 2},
     {0x1.999999999999ap-5, 0x1.3333333333334p-5, 0x1.999999999999dp-7, 0x1.999999999999ap-5, 0x1.7e297902351dfp-5,
      0x1.3333333333334p-5, 0x1.999999999999ap-6, 0x1.999999999999dp-7, 0x1.b702097647bbap-9, 0x1.999999999999ap-5,
      0x1.929f21c837fa2p-5, 0x1.7e297902351dfp-5}},
    {{.name = ScheduleKind::restarts, .period = 4, .warmup = 2},
     {0x1.47ae147ae147cp-8, 0x1.c28f5c28f5c2ap-6, 0x1.999999999999ap-5, 0x1.5d9d8f5cc7e52p-5, 0x1.999999999999ap-6,
      0x1.dfe051e68da40p-8, 0x1.999999999999ap-5, 0x1.5d9d8f5cc7e52p-5, 0x1.999999999999ap-6, 0x1.dfe051e68da40p-8,
      0x1.999999999999ap-5, 0x1.5d9d8f5cc7e52p-5}},
    {{.name = ScheduleKind::inverse_sqrt, .period = 4, .warmup = 4},
     {0x1.47ae147ae147cp-8, 0x1.0a3d70a3d70a5p-6, 0x1.c28f5c28f5c2bp-6, 0x1.3d70a3d70a3d9p-5, 0x1.999999999999ap-5,
      0x1.6e5b7d16657e1p-5, 0x1.4e6fdf33cf033p-5, 0x1.35a0e521ff985p-5, 0x1.21a1851ff630ap-5, 0x1.1111111111111p-5,
      0x1.030dc4ea03a73p-5, 0x1.edff061bbd9d7p-6}},
    {{.name = ScheduleKind::wsd,
      .period = 3,
      .decay = 5,
      .decay_shape = spec::Decay::cosine,
      .min_factor = 0.1,
      .warmup = 2},
     {0x1.47ae147ae147cp-8, 0x1.c28f5c28f5c2ap-6, 0x1.999999999999ap-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5,
      0x1.999999999999ap-5, 0x1.7665e4240f1adp-5, 0x1.1a3cee617fbebp-5, 0x1.50a4db8eec07fp-6, 0x1.30a5e0139a9f2p-7,
      0x1.47ae147ae147cp-8, 0x1.47ae147ae147cp-8}},
    {{.name = ScheduleKind::table,
      .points = {0, 2, 7},
      .factors = {1.0, 0.5, 0.1},
      .between = spec::Between::linear,
      .warmup = 1},
     {0x1.47ae147ae147cp-8, 0x1.999999999999ap-5, 0x1.3333333333334p-5, 0x1.999999999999ap-6, 0x1.5810624dd2f1bp-6,
      0x1.16872b020c49bp-6, 0x1.a9fbe76c8b43ap-7, 0x1.26e978d4fdf3ap-7, 0x1.47ae147ae147cp-8, 0x1.47ae147ae147cp-8,
      0x1.47ae147ae147cp-8, 0x1.47ae147ae147cp-8}},
};

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

TEST_CASE("every lr is PyTorch's to the last bit") {
  for (const auto& row : golden) {
    Schedule schedule(row.settings, 0.05);
    for (size_t i = 0; i < row.lrs.size(); ++i, schedule.advance()) {
      CAPTURE(i);
      CAPTURE(row.settings.period);
      CHECK(schedule.lr() == row.lrs[i]);
    }
  }
}

TEST_CASE("any state is reached from any other") {
  for (const auto& row : golden) {
    Schedule schedule(row.settings, 0.05);
    for (int64_t calls : {5, 11, 3, 3, 0, 7}) {
      schedule.seek(calls);
      CHECK(schedule.calls() == calls);
      CHECK(schedule.lr() == row.lrs[static_cast<size_t>(calls)]);
    }
  }
}

TEST_CASE("a constant schedule keeps the lr") {
  Schedule schedule({}, 0.3);
  schedule.seek(1000);
  CHECK(schedule.lr() == 0.3);
}

// Epochs of five steps.
const batches::BatchSchedule fives{.samples_per_est = 10, .batch = 2, .drop_last = false, .changes = {}};

TEST_CASE("a schedule advances with every step, or with every whole epoch") {
  spec::ScheduleSection settings;
  settings.unit = spec::ScheduleUnit::step;
  CHECK(schedule_calls(settings, Step(17), fives) == 17);
  settings.unit = spec::ScheduleUnit::epoch;
  CHECK(schedule_calls(settings, Step(4), fives) == 0);
  CHECK(schedule_calls(settings, Step(5), fives) == 1);
  CHECK(schedule_calls(settings, Step(17), fives) == 3);
}

TEST_CASE("a change of the batch moves the ends of epochs, and its factor multiplies what the schedule gives") {
  spec::ScheduleSection settings;
  settings.name = ScheduleKind::step;
  settings.period = 1;
  settings.gamma = 0.5;
  batches::BatchSchedule changed = fives;
  changed.changes = {{2, 3, 4}, {6, 5, 0.25}};  // epochs of 2, 2, 3, 3; 3, 3, 4; 5, 5
  GroupSchedules schedules(settings, {.groups = {{.lr = 0.1}, {.lr = 3}}, .group_of = {}}, changed);
  const std::vector<double> factors = {1, 1, 4, 4, 4 * 0.5, 4 * 0.5, 0.25 * 0.5, 0.25 * 0.25};
  for (size_t step = 0; step < factors.size(); ++step)
    CHECK(schedules.rates_at(Step(static_cast<int64_t>(step))) == std::vector{0.1 * factors[step], 3 * factors[step]});
  CHECK(schedules.scheduled_at(Step(2)) == std::vector{0.1, 3.0});
  CHECK(schedule_calls(settings, Step(9), changed) == 3);
}

TEST_CASE("wsd falls in the shape asked for, and a table without lines holds its factors") {
  spec::ScheduleSection wsd;
  wsd.name = ScheduleKind::wsd;
  wsd.period = 2, wsd.decay = 4;
  const auto rates = [](const spec::ScheduleSection& settings) {
    Rates all;
    for (Schedule schedule(settings, 1); schedule.calls() < 7; schedule.advance()) all.push_back(schedule.lr());
    return all;
  };
  CHECK(rates(wsd) == Rates{1, 1, 1, 0.75, 0.5, 0.25, 0});
  wsd.decay_shape = spec::Decay::one_minus_sqrt;
  wsd.min_factor = 0.5;
  CHECK(rates(wsd)[3] == 0.75);
  CHECK(rates(wsd)[6] == 0.5);
  Schedule longer(wsd, 1);
  longer.seek(50);
  CHECK(longer.lr() == 0.5);
  spec::ScheduleSection table;
  table.name = ScheduleKind::table;
  table.points = {0, 1, 4};
  table.factors = {0.5, 2, 0.25};
  CHECK(rates(table) == Rates{0.5, 2, 2, 2, 0.25, 0.25, 0.25});
  table.between = spec::Between::linear;
  table.points = {0, 2, 4};
  CHECK(rates(table) == Rates{0.5, 1.25, 2, 1.125, 0.25, 0.25, 0.25});
}

TEST_CASE("cycles that grow are found from the number of calls alone") {
  spec::ScheduleSection settings;
  settings.name = ScheduleKind::restarts;
  settings.period = 2, settings.period_factor = 3;
  Schedule schedule(settings, 1);
  for (int64_t start : {2, 8, 26, 80}) {
    schedule.seek(start);
    CHECK(schedule.lr() == 1);
    schedule.seek(start - 1);
    CHECK(schedule.lr() <= 0.5);
  }
}

TEST_CASE("a job that goes on behind the end of its one cycle is refused, and one that ends with it is not") {
  spec::ScheduleSection settings;
  settings.name = ScheduleKind::onecycle;
  settings.period = 10;
  settings.unit = spec::ScheduleUnit::step;
  CHECK_NOTHROW(check_length(settings, Step(10), fives));
  CHECK_THROWS_AS(check_length(settings, Step(11), fives), Error);
  settings.unit = spec::ScheduleUnit::epoch;
  CHECK_NOTHROW(check_length(settings, Step(54), fives));
  CHECK_THROWS_AS(check_length(settings, Step(55), fives), Error);
  settings.name = ScheduleKind::cosine;
  CHECK_NOTHROW(check_length(settings, Step(1000), fives));
}

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

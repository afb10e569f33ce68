#include "core/optim/schedule.h"

#include <doctest/doctest.h>

#include <vector>

using namespace estrain;
using namespace estrain::optim;
using spec::ScheduleKind;

namespace {

struct Golden {
  ScheduleKind kind;
  int64_t period, warmup;
  std::vector<double> lrs;  // before the first call of scheduler.step() and after each
};

// torch.optim.lr_scheduler 2.11, base lr 0.05 (scripts/peers/schedule_bits.py --golden).
const std::vector<Golden> golden = {
    {ScheduleKind::step,
     3,
     0,
     {0x1.999999999999ap-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5, 0x1.47ae147ae147cp-8, 0x1.47ae147ae147cp-8,
      0x1.47ae147ae147cp-8, 0x1.0624dd2f1a9fdp-11, 0x1.0624dd2f1a9fdp-11, 0x1.0624dd2f1a9fdp-11, 0x1.a36e2eb1c432fp-15,
      0x1.a36e2eb1c432fp-15, 0x1.a36e2eb1c432fp-15}},
    {ScheduleKind::step,
     2,
     3,
     {0x1.47ae147ae147cp-8, 0x1.47ae147ae147bp-6, 0x1.1eb851eb851ecp-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5,
      0x1.47ae147ae147cp-8, 0x1.47ae147ae147cp-8, 0x1.0624dd2f1a9fdp-11, 0x1.0624dd2f1a9fdp-11, 0x1.a36e2eb1c432fp-15,
      0x1.a36e2eb1c432fp-15, 0x1.4f8b588e368f3p-18}},
    {ScheduleKind::cosine,
     5,
     0,
     {0x1.999999999999ap-5, 0x1.727c9716ffb77p-5, 0x1.0c1630b099510p-5, 0x1.1b06d1d200914p-6, 0x1.38e81414cf11dp-8,
      0x0.0p+0, 0x1.38e81414cf11ap-8, 0x1.1b06d1d200916p-6, 0x1.0c1630b099513p-5, 0x1.727c9716ffb7bp-5,
      0x1.999999999999ep-5, 0x1.727c9716ffb7dp-5}},
    {ScheduleKind::cosine,
     4,
     2,
     {0x1.47ae147ae147cp-8, 0x1.c28f5c28f5c2ap-6, 0x1.999999999999ap-5, 0x1.5d9d8f5cc7e52p-5, 0x1.999999999999ap-6,
      0x1.dfe051e68da40p-8, 0x0.0p+0, 0x1.dfe051e68da3dp-8, 0x1.999999999999bp-6, 0x1.5d9d8f5cc7e54p-5,
      0x1.999999999999cp-5, 0x1.5d9d8f5cc7e54p-5}},
    {ScheduleKind::linear,
     5,
     0,
     {0x1.1111111111111p-6, 0x1.7e4b17e4b17e5p-6, 0x1.eb851eb851eb9p-6, 0x1.2c5f92c5f92c7p-5, 0x1.62fc962fc9631p-5,
      0x1.999999999999ap-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5,
      0x1.999999999999ap-5, 0x1.999999999999ap-5}},
    {ScheduleKind::linear,
     3,
     3,
     {0x1.47ae147ae147cp-8, 0x1.47ae147ae147bp-6, 0x1.1eb851eb851ecp-5, 0x1.1111111111111p-6, 0x1.c71c71c71c71dp-6,
      0x1.3e93e93e93e94p-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5,
      0x1.999999999999ap-5, 0x1.999999999999ap-5}},
    {ScheduleKind::constant,
     30,
     4,
     {0x1.47ae147ae147cp-8, 0x1.0a3d70a3d70a5p-6, 0x1.c28f5c28f5c2bp-6, 0x1.3d70a3d70a3d9p-5, 0x1.999999999999ap-5,
      0x1.999999999999ap-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5, 0x1.999999999999ap-5,
      0x1.999999999999ap-5, 0x1.999999999999ap-5}},
};

spec::ScheduleSection settings_of(const Golden& row) {
  spec::ScheduleSection settings;
  settings.name = row.kind;
  settings.period = row.period;
  settings.warmup = row.warmup;
  return settings;
}

}  // namespace

TEST_CASE("every lr is PyTorch's to the last bit") {
  for (const auto& row : golden) {
    Schedule schedule(settings_of(row), 0.05);
    for (size_t i = 0; i < row.lrs.size(); ++i, schedule.advance()) {
      CAPTURE(i);
      CAPTURE(row.period);
      CHECK(schedule.lr() == row.lrs[i]);
    }
  }
}

TEST_CASE("any state is reached from any other") {
  for (const auto& row : golden) {
    Schedule schedule(settings_of(row), 0.05);
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

TEST_CASE("a schedule advances with every step, or with every whole epoch") {
  spec::ScheduleSection settings;
  settings.unit = spec::ScheduleUnit::step;
  CHECK(schedule_calls(settings, Step(17), 5) == 17);
  settings.unit = spec::ScheduleUnit::epoch;
  CHECK(schedule_calls(settings, Step(4), 5) == 0);
  CHECK(schedule_calls(settings, Step(5), 5) == 1);
  CHECK(schedule_calls(settings, Step(17), 5) == 3);
}

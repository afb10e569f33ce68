#include "core/launch/progress.h"

#include <doctest/doctest.h>

namespace estrain::launch {
namespace {

TEST_CASE("durations are told in two units at most") {
  const std::pair<double, const char*> expected[] = {
      {0, "0 s"},
      {0.4, "0 s"},
      {0.6, "1 s"},
      {59.4, "59 s"},
      {59.6, "1 min 00 s"},
      {185, "3 min 05 s"},
      {3599.4, "59 min 59 s"},
      {3599.6, "1 h 00 min"},
      {7800, "2 h 10 min"},
      {360'000, "100 h 00 min"},
  };
  for (const auto& [seconds, text] : expected) CHECK(format_duration(seconds) == text);
}

TEST_CASE("a progress line says what is known") {
  Progress progress;
  progress.step = 120;
  progress.total_steps = 5625;
  progress.epoch = 1;
  progress.loss = 0.56789;
  progress.samples_per_second = 3204.26;
  progress.devices = "2 x cpu";
  CHECK(format_progress(progress) == "step 120/5625  epoch 1  loss 0.5679  3204.3 samples/s  on 2 x cpu");
  Progress finished_before = progress;
  finished_before.samples_per_second = finished_before.loss = 0;
  CHECK(format_progress(finished_before) == "step 120/5625  epoch 1  on 2 x cpu");
  finished_before.total_steps = 100;
  CHECK(format_progress(finished_before) == "step 120  epoch 1  on 2 x cpu");
  progress.accuracy = 0.8912;
  progress.seconds_left = 61;
  CHECK(format_progress(progress) ==
        "step 120/5625  epoch 1  loss 0.5679  3204.3 samples/s  on 2 x cpu  test accuracy 89.12 %  1 min 01 s left");
}

}  // namespace
}  // namespace estrain::launch

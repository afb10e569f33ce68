// A parameter that no EST reaches in a step does not change: torch.optim skips parameters without gradients. Tested
// through whole updates, for each update path in updater.h.

#include <ATen/ops/lerp.h>
#include <doctest/doctest.h>

#include <cstring>

#include "tests/core/engine/train/linear_training.h"

namespace estrain::train {
namespace {

constexpr size_t kParameters = 4;  // in the mlp
constexpr size_t kMissed = 1;      // the parameter under test

const char* const kOptimizers[] = {
    "name = \"sgd\"\nlr = 0.1\nweight_decay = 0.01\n",
    "name = \"sgd\"\nlr = 0.1\nmomentum = 0.9\ndampening = 0.5\nweight_decay = 0.01\n",
    "name = \"sgd\"\nlr = 0.1\nmomentum = 0.9\nnesterov = true\n",
    "name = \"adam\"\nlr = 0.01\nweight_decay = 0.01\n",
    "name = \"adamw\"\nlr = 0.01\nweight_decay = 0.01\n",
    "name = \"adafactor\"\nweight_decay = 0.01\n",
    "name = \"lamb\"\n",
    "name = \"muon\"\ngroups = [{ match = [\"*.bias\"], name = \"lamb\" }]\n",
};

bool all_but_missed(int64_t, size_t parameter) { return parameter != kMissed; }
bool last_est_only(int64_t rank, size_t parameter) { return parameter != kMissed || rank == kNumEsts - 1; }

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

template <typename Check>
void for_every_update(Check&& check) {
  for (const char* optimizer : kOptimizers) {
    for (const Way& way : kWays) {
      CAPTURE(std::string(optimizer));
      CAPTURE(std::string(way.name));
      check(optimizer, way);
    }
  }
}

TEST_CASE("a parameter that no EST reached keeps values, slots and its count of updates; the others go on") {
  for_every_update([](const char* optimizer, const Way& way) {
    LinearTraining training(optimizer, way);
    const std::vector<float> first = training.values(kMissed);
    for (int64_t step = 1; step <= 2; ++step) {
      training.step(all_but_missed);
      CHECK(training.updates(kMissed) == 0);
      CHECK(same_bits(training.values(kMissed), first));
      for (size_t i = 0; i < kParameters; ++i)
        if (i != kMissed) CHECK(training.updates(i) == step);
    }
    training.step(last_est_only);
    CHECK(training.updates(kMissed) == 1);
    CHECK_FALSE(same_bits(training.values(kMissed), first));
    const std::vector<float> once = training.values(kMissed);
    training.step(all_but_missed);
    CHECK(training.updates(kMissed) == 1);
    CHECK(same_bits(training.values(kMissed), once));
  });
}

TEST_CASE("the first update of a parameter that was reached late has the bits of a first step's") {
  for_every_update([](const char* optimizer, const Way& way) {
    LinearTraining late(optimizer, way), at_once(optimizer, way);
    late.step(all_but_missed);
    late.step(all);
    at_once.step(all);
    CHECK(same_bits(late.values(kMissed), at_once.values(kMissed)));
    CHECK(late.updates(kMissed) == at_once.updates(kMissed));
    CHECK_FALSE(same_bits(late.values(0), at_once.values(0)));
  });
}

std::vector<float> averaged(const std::vector<float>& average, const std::vector<float>& values, double decay) {
  const auto tensor = [](const std::vector<float>& numbers) { return torch::tensor(numbers); };
  const torch::Tensor moved = at::lerp(tensor(average), tensor(values), 1 - decay);
  return {moved.const_data_ptr<float>(), moved.const_data_ptr<float>() + moved.numel()};
}

TEST_CASE("the average of a parameter that no EST reached moves on towards its values, and is on record") {
  for (const Way& way : kWays) {
    CAPTURE(std::string(way.name));
    LinearTraining training("name = \"sgd\"\nlr = 0.1\n", way, "[ema]\ndecay = 0.75\n");
    training.step(all);
    CHECK(same_bits(training.average(kMissed), training.values(kMissed)));
    for (const Reach& reach : {Reach(all), Reach(all_but_missed), Reach(all_but_missed)}) {
      const std::vector<float> before = training.average(kMissed);
      training.step(reach);
      CHECK_FALSE(same_bits(training.average(kMissed), before));
      CHECK(same_bits(training.average(kMissed), averaged(before, training.values(kMissed), 0.75)));
      for (size_t i = 0; i < kParameters; ++i) CHECK(training.is_as_recorded(i));
    }
  }
}

}  // namespace
}  // namespace estrain::train

#include "core/run/launch/profiling/speed_planner.h"

#include <doctest/doctest.h>

namespace estrain::launch {
namespace {

spec::JobSpec job(int64_t ests, spec::Determinism determinism) {
  spec::JobSpec spec;
  spec.job.ests = ests;
  spec.job.determinism = determinism;
  spec.model.name = "mlp";
  spec.train.clip_grad_norm = 1;
  return spec;
}

// A stage of 20 steps: workers of these kinds, numbers of ESTs and milliseconds per EST; an exchange of 5 ms.
struct Part {
  int64_t id;
  std::string kind;
  int64_t ests, milliseconds;
};
SpeedMeter::MeasuredSteps stage(const std::vector<Part>& parts) {
  SpeedMeter::MeasuredSteps span;
  span.steps = span.to_step = 20;
  int64_t slowest = 0;
  for (const Part& part : parts) {
    span.workers.push_back({part.id, part.kind, part.ests, 20 * part.ests * part.milliseconds * 1ms, 20 * part.ests});
    slowest = std::max(slowest, part.ests * part.milliseconds);
  }
  span.seconds = 20 * 1e-3 * static_cast<double>(slowest + 5);
  return span;
}

std::vector<int64_t> ests_of(const Placement& placement) {
  std::vector<int64_t> ests;
  for (const Share& share : placement.devices) ests.push_back(share.ests.value_or(0));
  return ests;
}

TEST_CASE("equal workers keep equal shares, and the estimate is what was measured") {
  const spec::JobSpec spec = job(8, spec::Determinism::d1);
  SpeedPlanner planner(spec, {"a CPU", 8, "1"}, false);
  const SpeedMeter::MeasuredSteps span = stage({{0, "cpu", 4, 10}, {1, "cpu", 4, 10}});
  planner.learn(span, 1000);
  CHECK(planner.current(span).step_seconds == doctest::Approx(span.step_seconds()).epsilon(0.02));
  const Placement best = planner.best(span, placement::devices_from({"cpu", "cpu"}));
  CHECK(ests_of(best) == std::vector<int64_t>{4, 4});
  CHECK(best.workers == std::vector<int64_t>{0, 1});
}

TEST_CASE("GPUs of one model work together at D1, and one that was never measured counts as its like") {
  const spec::JobSpec spec = job(8, spec::Determinism::d1);
  const SpeedMeter::MeasuredSteps span = stage({{0, "cuda:0", 8, 10}});
  for (const bool alike : {true, false}) {
    CAPTURE(alike);
    SpeedPlanner planner(spec, {"a CPU", 8, "1", {"NVIDIA A100", alike ? "NVIDIA A100" : "NVIDIA L4"}}, false);
    planner.learn(span, 1000);
    const Placement best = planner.best(span, placement::devices_from({"cuda:0", "cuda:1"}));
    CHECK(ests_of(best) == (alike ? std::vector<int64_t>{4, 4} : std::vector<int64_t>{8}));
    if (alike) CHECK(devices_of(best.devices) == placement::devices_from({"cuda:0", "cuda:1"}));
  }
}

TEST_CASE(
    "a worker that takes three times as long gets a third, whichever it is, and equal ones again when it is over") {
  const spec::JobSpec spec = job(8, spec::Determinism::d1);
  SpeedPlanner planner(spec, {"a CPU", 8, "1"}, false);
  planner.learn(stage({{0, "cpu", 4, 10}, {1, "cpu", 4, 10}}), 1000);
  for (const bool first : {true, false}) {
    const SpeedMeter::MeasuredSteps slow = stage({{0, "cpu", 4, first ? 30 : 10}, {1, "cpu", 4, first ? 10 : 30}});
    const Placement best = planner.best(slow, placement::devices_from({"cpu", "cpu"}));
    REQUIRE(best.workers.size() == 2);
    for (size_t i = 0; i < 2; ++i) {
      const bool is_slow = best.workers[i] == (first ? 0 : 1);
      CHECK(best.devices[i].ests == (is_slow ? 2 : 6));
    }
    CHECK(best.plan.step_seconds < 0.6 * planner.current(slow).step_seconds);
  }
  const SpeedMeter::MeasuredSteps over = stage({{0, "cpu", 6, 10}, {1, "cpu", 2, 10}});
  CHECK(ests_of(planner.best(over, placement::devices_from({"cpu", "cpu"}))) == std::vector<int64_t>{4, 4});
}

TEST_CASE("balanced shares leave nobody out, however slow") {
  const spec::JobSpec spec = job(8, spec::Determinism::d1);
  SpeedPlanner planner(spec, {"a CPU", 8, "1"}, false);
  const SpeedMeter::MeasuredSteps slow = stage({{0, "cpu", 4, 10}, {1, "cpu", 4, 200}});
  planner.learn(stage({{0, "cpu", 4, 10}, {1, "cpu", 4, 10}}), 1000);
  CHECK(planner.best(slow, placement::devices_from({"cpu", "cpu"})).workers == std::vector<int64_t>{0});
  const Placement balanced = planner.balanced(slow);
  CHECK(ests_of(balanced) == std::vector<int64_t>{7, 1});
  CHECK(balanced.workers == std::vector<int64_t>{0, 1});
  CHECK(balanced.plan.compute_seconds == doctest::Approx(0.2).epsilon(0.05));
  CHECK(ests_of(planner.balanced(stage({{0, "cpu", 2, 10}, {1, "cpu", 6, 30}}))) == std::vector<int64_t>{6, 2});
}

TEST_CASE("idle devices are started where that helps, and are as fast as their kind") {
  const spec::JobSpec spec = job(8, spec::Determinism::d1);
  SpeedPlanner planner(spec, {"a CPU", 8, "1"}, false);
  const SpeedMeter::MeasuredSteps alone = stage({{3, "cpu", 8, 10}});
  planner.learn(alone, 1000);
  const Placement best = planner.best(alone, placement::devices_from({"cpu", "cpu", "cpu", "cpu"}));
  CHECK(ests_of(best) == std::vector<int64_t>{2, 2, 2, 2});
  CHECK(best.workers == std::vector<int64_t>{3, -1, -1, -1});
  CHECK(best.plan.step_seconds < 0.4 * planner.current(alone).step_seconds);
}

TEST_CASE("more workers than cores are not taken for faster") {
  const spec::JobSpec spec = job(8, spec::Determinism::d1);
  SpeedPlanner planner(spec, {"a CPU", 1, "1"}, false);
  const SpeedMeter::MeasuredSteps alone = stage({{3, "cpu", 8, 10}});
  planner.learn(alone, 1000);
  // How much of the exchange two would share is not known yet.
  CHECK(planner.best(alone, placement::devices_from({"cpu", "cpu"})).plan.step_seconds > 0.95 * alone.step_seconds());
}

TEST_CASE("kinds are mixed at D2 in proportion to their speeds, and not below") {
  for (const bool mixed : {true, false}) {
    const spec::JobSpec spec = job(8, mixed ? spec::Determinism::d2 : spec::Determinism::d1);
    SpeedPlanner planner(spec, {"a CPU", 8, "1"}, false);
    planner.learn(stage({{0, "cpu:sse", 8, 30}}), 1000);
    const SpeedMeter::MeasuredSteps alone = stage({{1, "cpu:avx512", 8, 10}});
    planner.learn(alone, 1000);
    const Placement best = planner.best(alone, placement::devices_from({"cpu:avx512", "cpu:sse"}));
    if (!mixed) {
      CHECK(best.workers == std::vector<int64_t>{1});
      continue;
    }
    REQUIRE(best.workers.size() == 2);
    for (size_t i = 0; i < 2; ++i) CHECK(best.devices[i].ests == (best.devices[i].device.kind == "cpu:sse" ? 2 : 6));
  }
}

TEST_CASE("a kind that was never seen is tried as if it were as fast as the others") {
  const spec::JobSpec spec = job(8, spec::Determinism::d2);
  SpeedPlanner planner(spec, {"a CPU", 8, "1"}, false);
  const SpeedMeter::MeasuredSteps alone = stage({{1, "cpu:avx512", 8, 10}});
  planner.learn(alone, 1000);
  CHECK(ests_of(planner.best(alone, placement::devices_from({"cpu:avx512", "cpu:sse"}))) == std::vector<int64_t>{4, 4});
}

TEST_CASE("a device that is not held any more gets nothing") {
  const spec::JobSpec spec = job(8, spec::Determinism::d1);
  SpeedPlanner planner(spec, {"a CPU", 8, "1"}, false);
  const SpeedMeter::MeasuredSteps span = stage({{0, "cpu", 3, 10}, {1, "cpu", 3, 10}, {2, "cpu", 2, 10}});
  planner.learn(span, 1000);
  const Placement best = planner.best(span, placement::devices_from({"cpu", "cpu"}));
  CHECK(ests_of(best) == std::vector<int64_t>{4, 4});
  CHECK(best.workers == std::vector<int64_t>{0, 1});
  CHECK_THROWS_AS(planner.best(span, {}), Error);
}

}  // namespace
}  // namespace estrain::launch

#include "core/inspect/verify/replay.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/inspect/verify/compare.h"
#include "tests/core/inspect/verify/fake_run.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace estrain::verify {
namespace {

auto nudge(int64_t at_step) {
  return [=](int64_t step, FakeState& state) {
    if (step == at_step) state.f32("/model/fc.bias", 1) = std::nextafter(state.f32("/model/fc.bias", 1), 2.f);
  };
}

struct Recorded {
  ScratchFolder folder;

  Subject make(const std::string& name, const FakeRun& run) const {
    run.write(folder / name);
    return open_subject(folder / name);
  }
  // Repeats steps 10 to 15; `run` defines this repetition's disturbance.
  Subject replay(const std::string& name, FakeRun run) const {
    run.first_step = 10;
    run.steps = 15;
    run.checkpoint_every = 5;
    return make(name, run);
  }
};

TEST_CASE("the plan starts at the last equal checkpoint and ends at the difference") {
  const Recorded recorded;
  const Subject a = recorded.make("a", {}), b = recorded.make("b", {.disturb = nudge(15)});
  const Comparison comparison = compare(a, b);
  const std::optional<ReplayPlan> plan = plan_replay(comparison, a);
  REQUIRE(plan.has_value());
  CHECK(plan->from == Step(10));
  CHECK(plan->to == Step(15));
  CHECK(plan->checkpoint == recorded.folder / "a/checkpoints/step-000000010.h5");
  CHECK_FALSE(plan_replay(compare(a, a), a).has_value());
  const Subject c = recorded.make("c", {.checkpoint_every = 0, .disturb = nudge(15)});
  CHECK_FALSE(plan_replay(compare(a, c), a).has_value());
}

TEST_CASE("a fault that does not repeat is told from a systematic difference") {
  const Recorded recorded;
  const Subject a = recorded.make("a", {}), b = recorded.make("b", {.disturb = nudge(15)});
  const ReplayPlan plan = *plan_replay(compare(a, b), a);
  const Subject clean_a = recorded.replay("clean_a", {}), clean_b = recorded.replay("clean_b", {});
  const Subject again_b = recorded.replay("again_b", {.disturb = nudge(15)});

  const ReplayVerdict once = judge_replay(plan, a, b, clean_a, clean_b);
  CHECK(once.repeats == Repeats::a_only);
  CHECK(to_text(once).starts_with("replay: A repeats, B does not"));
  CHECK(judge_replay(plan, b, a, clean_a, clean_b).repeats == Repeats::b_only);

  const ReplayVerdict systematic = judge_replay(plan, a, b, clean_a, again_b);
  CHECK(systematic.repeats == Repeats::difference);
  REQUIRE(systematic.tensors.size() == 1);
  CHECK(systematic.tensors[0].path == "/model/fc.bias");
  CHECK(systematic.tensors[0].first.index == 1);
  CHECK(systematic.tensors[0].first.distance == 1u);
  CHECK(to_json(systematic).at("repeats") == "difference");

  const auto elsewhere = [](int64_t step, FakeState& state) {
    if (step == 15) state.f32("/model/fc.weight", 0) = 0.25f;
  };
  const Subject other = recorded.replay("other", {.disturb = elsewhere});
  CHECK(judge_replay(plan, a, b, other, other).repeats == Repeats::neither);
  CHECK(judge_replay(plan, a, a, clean_a, clean_b).repeats == Repeats::both);
}

TEST_CASE("the disturbed run's checkpoint shows what became of it") {
  const Recorded recorded;
  const Subject a = recorded.make("a", {.checkpoint_every = 5}),
                b = recorded.make("b", {.checkpoint_every = 5, .disturb = nudge(15)});
  const ReplayPlan plan = *plan_replay(compare(a, b), a);
  const Subject again = recorded.replay("again", {});
  const ReplayVerdict verdict = judge_replay(plan, a, b, again, again);
  CHECK(verdict.repeats == Repeats::a_only);
  REQUIRE(verdict.tensors.size() == 1);
  CHECK(verdict.tensors[0].first.distance == 1u);
}

TEST_CASE("a replay without the checkpoint that was asked for is a mismatch") {
  const Recorded recorded;
  const Subject a = recorded.make("a", {}), b = recorded.make("b", {.disturb = nudge(15)});
  const ReplayPlan plan = *plan_replay(compare(a, b), a);
  CHECK(error_of([&] { (void)judge_replay(plan, a, b, a, b); }).fault() == Fault::mismatch);
}

}  // namespace
}  // namespace estrain::verify

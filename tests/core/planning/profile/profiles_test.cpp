#include "core/planning/profile/profiles.h"

#include <doctest/doctest.h>

#include "core/planning/profile/plan_inputs.h"
#include "now.h"
#include "sample_work.h"
#include "tests/error_of.h"

namespace estrain::profile {
namespace {

struct Learner {
  spec::JobSpec job = some_job();
  MachineFacts host = some_host();
  Profiles profiles;
  int64_t now = kNow;

  void learn(const StageSpeed& stage) { profiles.learn(job, host, stage, now++); }
  const Capability& of(const std::string& kind) const {
    const Capability* found = profiles.find(describe_work(job, kind, host));
    REQUIRE(found != nullptr);
    return *found;
  }
  PlanInputs inputs(const std::vector<KindCount>& kinds) const { return plan_job(profiles, job, host, kinds, now); }
};

TEST_CASE("two GPUs of a model are measured once, and a third one counts as they do") {
  Learner learner;
  learner.host.gpus = {"A100", "A100", "A100", "L4"};
  learner.learn(stage({{"cuda:1", 8, 0.010}}, 0));
  learner.learn(stage({{"cuda:0", 4, 0.010}, {"cuda:1", 4, 0.010}}, 0.003));
  CHECK(learner.of("cuda:0").mini_batch(2)->samples == 1);
  const PlanInputs inputs = learner.inputs({{"cuda:0", 1}, {"cuda:2", 1}, {"cuda:3", 1}});
  REQUIRE(inputs.groups.size() == 2);
  CHECK(inputs.groups[1].kind == "cuda:2");
  CHECK(inputs.groups[1].family() == inputs.groups[0].family());
  CHECK(inputs.groups[1].mini_batches_per_second == doctest::Approx(100));
  CHECK(inputs.missing == std::vector<std::string>{"cuda:3"});
  CHECK(inputs.incomplete.empty());
}

TEST_CASE("what changes of devices cost is kept, and the median over all work told") {
  Learner learner;
  CHECK_FALSE(learner.profiles.change_seconds());
  learner.learn(stage({{"cpu", 4, 0.010}}, 0));
  learner.profiles.learn_change(learner.job, learner.host, "cpu", 0.2, kNow);
  learner.profiles.learn_change(learner.job, learner.host, "cpu", 0.4, kNow);
  CHECK(learner.of("cpu").change->seconds == doctest::Approx(0.3));
  for (const double seconds : {5.0, 7.0}) {
    learner.job.data.batch += 1;
    learner.profiles.learn_change(learner.job, learner.host, "cpu", seconds, kNow);
  }
  CHECK(learner.profiles.change_seconds() == 5.0);
  CHECK(Profiles::from_json(learner.profiles.to_json()).change_seconds() == 5.0);
}

TEST_CASE("a device without a measurement of this work is guessed from the ratios of other works") {
  Learner learner;
  learner.host.gpus = {"L4"};
  const auto guess = [&](const std::string& device, double seconds) {
    return learner.profiles.guess_mini_batches(learner.job, learner.host, device, seconds);
  };
  CHECK(guess("cpu:avx2", 0) == std::map<std::string, double>{});
  CHECK(guess("cpu:avx2", 0.5) == std::map<std::string, double>{{"cpu:avx2", 0.5}});
  const spec::JobSpec asked = learner.job;
  for (const double seconds : {0.010, 0.020, 0.040}) {
    ++learner.job.data.batch;
    learner.learn(stage({{"cpu:avx2", 4, 0.020}}, 0));
    learner.learn(stage({{"cpu:sse", 4, seconds}}, 0));
    learner.learn(stage({{"cuda:0", 4, 0.002}}, 0));
  }
  learner.job = asked;
  std::map<std::string, double> all = guess("cpu:avx2", 0.5);
  CHECK(all.size() == 3);
  CHECK(all["cpu:sse"] == doctest::Approx(0.5));  // the median of ratios
  CHECK(all["L4"] == doctest::Approx(0.05));
  learner.learn(stage({{"cpu:sse", 4, 0.3}}, 0));
  learner.learn(stage({{"cpu:avx2", 4, 0.1}}, 0));
  all = guess("cpu:avx2", 0.5);
  CHECK(all["cpu:avx2"] == doctest::Approx(0.1));
  CHECK(all["cpu:sse"] == doctest::Approx(0.3));
  CHECK(all["L4"] == doctest::Approx(0.01));
}

TEST_CASE("one worker tells its time alone, two tell crowding and exchange") {
  Learner learner;
  learner.learn(stage({{"cpu", 4, 0.010}}, 0));
  learner.learn(stage({{"cpu", 4, 0.012}, {"cpu", 4, 0.012}}, 0.003));
  CHECK(learner.of("cpu").mini_batch(1)->seconds == doctest::Approx(0.010));
  CHECK(learner.of("cpu").mini_batch(2)->seconds == doctest::Approx(0.012));
  const PlanInputs inputs = learner.inputs({{"cpu", 2}});
  REQUIRE(inputs.groups.size() == 1);
  CHECK(inputs.groups[0].mini_batches_per_second == doctest::Approx(100));
  CHECK(inputs.groups[0].count == 2);
  CHECK(inputs.job.crowding_of(2) == doctest::Approx(1.2));
  CHECK(inputs.job.exchange.seconds(2, 2) == doctest::Approx(0.003).epsilon(1e-3));
  CHECK(inputs.missing.empty());
  CHECK(inputs.incomplete.empty());
  const plan::Plan plan = plan::evaluate(inputs.job, inputs.groups, {{0, 4}, {0, 4}});
  CHECK(plan.step_seconds == doctest::Approx(0.051).epsilon(1e-3));
}

TEST_CASE("the update of a lone worker is told from its mini-batches, and belongs to the exchange") {
  Learner learner;
  const double alone = 0.010, update = 0.008;
  const StageSpeed one = stage({{"cpu", 1, alone + update}}, 0), four = stage({{"cpu", 4, alone + update / 4}}, 0);
  learner.profiles.learn_update(learner.job, learner.host, one, four, kNow);
  learner.learn(four);
  CHECK(learner.of("cpu").update->seconds == doctest::Approx(update));
  CHECK(learner.of("cpu").mini_batch(1)->seconds == doctest::Approx(alone));
  const PlanInputs inputs = learner.inputs({{"cpu", 1}});
  CHECK(inputs.job.exchange.seconds(1, 1) == doctest::Approx(update).epsilon(1e-3));
  CHECK(plan::evaluate(inputs.job, inputs.groups, {{0, 8}}).step_seconds == doctest::Approx(8 * alone + update));
  CHECK(inputs.incomplete.empty());  // one device needs no more
  CHECK(learner.inputs({{"cpu", 2}}).incomplete == std::vector<std::string>{"cpu"});
}

TEST_CASE("with clipping nothing of the update is in the mini-batches") {
  Learner learner;
  learner.job.train.clip_grad_norm = 1;
  learner.profiles.learn_update(learner.job, learner.host, stage({{"cpu", 1, 0.02}}, 0), stage({{"cpu", 4, 0.01}}, 0),
                                kNow);
  learner.learn(stage({{"cpu", 4, 0.01}}, 0.004));
  CHECK_FALSE(learner.of("cpu").update.has_value());
  CHECK(learner.of("cpu").mini_batch(1)->seconds == doctest::Approx(0.01));
  CHECK(learner.inputs({{"cpu", 1}}).job.exchange.seconds(1, 1) == doctest::Approx(0.004).epsilon(1e-3));
}

TEST_CASE("a mixed stage tells of each kind, counted back to what even work would take") {
  Learner learner;
  learner.learn(stage({{"cpu:avx2", 4, 0.010}}, 0));
  learner.learn(stage({{"cpu:avx2", 4, 0.015}, {"cpu:avx2", 4, 0.015}}, 0));
  // avx2 does 2 in 0.030 s, during which sse is crowded; then sse does 6 - 0.030 / 0.030 mini-batches of 0.020 s alone.
  learner.learn(stage({{"cpu:avx2", 2, 0.015}, {"cpu:sse", 6, (0.030 + 5 * 0.020) / 6}}, 0));
  CHECK(learner.of("cpu:sse").mini_batch(2)->seconds == doctest::Approx(0.030));
  CHECK(learner.of("cpu:avx2").mini_batch(2)->seconds == doctest::Approx(0.015));
  const PlanInputs inputs = learner.inputs({{"cpu:avx2", 1}, {"cpu:sse", 1}});
  CHECK(1 / inputs.groups[1].mini_batches_per_second == doctest::Approx(0.020));  // never measured alone
}

TEST_CASE("a profile that is wrong by 3x is mended by one stage, at every number of workers") {
  for (const double wrong : {3.0, 1.0 / 3}) {
    CAPTURE(wrong);
    Learner learner;
    for (int i = 0; i < 20; ++i) {
      learner.learn(stage({{"cpu", 4, wrong * 0.010}}, 0));
      learner.learn(stage({{"cpu", 4, wrong * 0.012}, {"cpu", 4, wrong * 0.012}}, 0.003));
    }
    learner.learn(stage({{"cpu", 4, 0.012}, {"cpu", 4, 0.012}}, 0.003));
    CHECK(learner.of("cpu").mini_batch(2)->seconds == doctest::Approx(0.012));
    CHECK(learner.of("cpu").mini_batch(1)->seconds == doctest::Approx(0.010));
    const PlanInputs inputs = learner.inputs({{"cpu", 2}});
    CHECK(plan::evaluate(inputs.job, inputs.groups, {{0, 8}}).compute_seconds == doctest::Approx(0.080));
  }
}

TEST_CASE("one number of workers wrong: the others are right again after one stage each") {
  Learner learner;
  learner.learn(stage({{"cpu", 4, 0.010}}, 0));
  learner.learn(stage({{"cpu", 4, 0.036}, {"cpu", 4, 0.036}}, 0));
  for (int round = 0; round < 2; ++round) {
    learner.learn(stage({{"cpu", 4, 0.012}, {"cpu", 4, 0.012}}, 0));
    learner.learn(stage({{"cpu", 4, 0.010}}, 0));
    CHECK(learner.of("cpu").mini_batch(1)->seconds == doctest::Approx(0.010));
    CHECK(learner.of("cpu").mini_batch(2)->seconds == doctest::Approx(0.012));
  }
}

TEST_CASE("an exchange that is wrong by 3x is mended too, noise of long steps leaves it alone") {
  Learner learner;
  learner.learn(stage({{"cpu", 4, 0.010}, {"cpu", 4, 0.010}}, 0.090));
  learner.learn(stage({{"cpu", 3, 0.010}, {"cpu", 3, 0.010}}, 0.120));
  learner.learn(stage({{"cpu", 4, 0.010}, {"cpu", 4, 0.010}}, 0.030));
  const Capability& found = learner.of("cpu");
  REQUIRE(found.exchanges.size() == 2);
  CHECK(found.exchanges[0].estimate.seconds == doctest::Approx(0.030));
  CHECK(found.exchanges[1].estimate.seconds == doctest::Approx(0.040));  // scaled alike
  CHECK(found.exchanges[1].estimate.samples == 0);
  Learner quiet;
  quiet.learn(stage({{"cpu", 4, 0.010}, {"cpu", 4, 0.010}}, 0.0001));
  quiet.learn(stage({{"cpu", 4, 0.010}, {"cpu", 4, 0.010}}, 0.0003));
  CHECK(quiet.of("cpu").exchanges[0].estimate.samples == 2);
}

TEST_CASE("what was never measured is missing") {
  Learner learner;
  learner.learn(stage({{"cpu", 4, 0.010}}, 0));
  const PlanInputs inputs = learner.inputs({{"cpu:sse", 1}, {"cpu", 2}});
  CHECK(inputs.missing == std::vector<std::string>{"cpu:sse"});
  REQUIRE(inputs.groups.size() == 1);
  CHECK(inputs.groups[0].kind == "cpu");
  CHECK(inputs.basis[0].samples == 1);
  learner.job.data.batch = 99;
  CHECK(learner.inputs({{"cpu", 2}}).groups.empty());
}

TEST_CASE("more workers than cores take turns, where nobody has measured it") {
  Learner learner;  // 4 cores
  learner.learn(stage({{"cpu", 4, 0.010}}, 0));
  learner.learn(stage({{"cpu", 4, 0.012}, {"cpu", 4, 0.012}}, 0));
  const PlanInputs inputs = learner.inputs({{"cpu", 8}});
  CHECK(inputs.job.crowding_of(4) == doctest::Approx(1.2));
  CHECK(inputs.job.crowding_of(8) == doctest::Approx(2.4));
  learner.learn(stage({{"cpu", 2, 0.016}, {"cpu", 2, 0.016}, {"cpu", 2, 0.016}, {"cpu", 2, 0.016}}, 0));
  CHECK(learner.inputs({{"cpu", 8}}).job.crowding_of(3) == doctest::Approx(1.4));  // between two that were measured
}

TEST_CASE("D1 plans one kind, D2 any, and D1 any if the user accepts it") {
  Learner learner;
  CHECK_FALSE(learner.inputs({}).job.one_kind);
  learner.job.job.determinism = spec::Determinism::d1;
  CHECK(learner.inputs({}).job.one_kind);
  CHECK_FALSE(plan_job(learner.profiles, learner.job, learner.host, {}, kNow, true).job.one_kind);
}

TEST_CASE("clock jumps: what was measured in the future is new, and its age never below zero") {
  Learner learner;
  learner.learn(stage({{"cpu", 4, 0.010}}, 0));
  learner.now = kNow - 1'000'000;
  CHECK(learner.inputs({{"cpu", 1}}).basis[0].age_seconds == 0);
  learner.learn(stage({{"cpu", 4, 0.011}}, 0));
  CHECK(learner.of("cpu").mini_batch(1)->samples == 2);
  learner.now = kNow + 50;
  CHECK(learner.inputs({{"cpu", 1}}).basis[0].age_seconds == 1'000'050);
}

TEST_CASE("of a job: what is known on every kind of device, and nothing of other jobs") {
  Learner learner;
  learner.learn(stage({{"cpu", 8, 0.010}}, 0));
  learner.learn(stage({{"cpu:sse", 8, 0.030}}, 0));
  learner.job.data.batch += 1;
  learner.learn(stage({{"cpu", 8, 0.011}}, 0));
  CHECK(learner.profiles.entries().size() == 3);
  const Profiles some = learner.profiles.of(learner.job, learner.host);
  CHECK(some.entries().size() == 1);
  CHECK(some.find(describe_work(learner.job, "cpu", learner.host)) != nullptr);
  learner.job.data.batch -= 1;
  CHECK(learner.profiles.of(learner.job, learner.host).entries().size() == 2);
}

TEST_CASE("the document gives back what went in") {
  Learner learner;
  const StageSpeed one = stage({{"cpu", 1, 0.018}}, 0), four = stage({{"cpu", 4, 0.012}}, 0);
  learner.profiles.learn_update(learner.job, learner.host, one, four, kNow);
  learner.learn(four);
  learner.learn(stage({{"cpu", 2, 0.016}, {"cpu:sse", 2, 0.017}}, 0.001));
  learner.profiles.at(describe_work(learner.job, "cpu", learner.host)).memory = Memory{1, 2, 3, 4};
  const Json document = learner.profiles.to_json();
  const Profiles again = Profiles::from_json(Json::parse(document.dump()));
  CHECK(again.to_json() == document);
  CHECK(again.entries().size() == 2);
  CHECK(again.entries()[0].work == learner.profiles.entries()[0].work);
  CHECK(again.entries()[0].capability.update->seconds == learner.of("cpu").update->seconds);
  CHECK(again.entries()[0].capability.memory->batch == 4);
  CHECK(again.entries()[0].capability.exchanges.size() == 2);
}

TEST_CASE("a document of another kind, or with times that are none, is refused") {
  Learner learner;
  learner.learn(stage({{"cpu", 4, 0.010}}, 0));
  const Json good = learner.profiles.to_json();
  const auto fault_of = [&](auto&& change) {
    Json json = good;
    change(json);
    return error_of([&] { Profiles::from_json(json); }).fault();
  };
  CHECK(fault_of([](Json& json) { json = Json::array(); }) == Fault::corrupt);
  CHECK(fault_of([](Json& json) { json["format"] = "something else"; }) == Fault::corrupt);
  CHECK(fault_of([](Json& json) { json.erase("profiles"); }) == Fault::corrupt);
  CHECK(fault_of([](Json& json) { json["profiles"][0]["work"] = 3; }) == Fault::corrupt);
  CHECK(fault_of([](Json& json) { json["profiles"][0]["mini_batch"][0]["seconds"] = -1; }) == Fault::corrupt);
  CHECK(fault_of([](Json& json) { json["profiles"][0]["mini_batch"][0]["seconds"] = 0; }) == Fault::corrupt);
  CHECK(fault_of([](Json& json) { json["profiles"][0]["mini_batch"][0]["seconds"] = "x"; }) == Fault::corrupt);
  CHECK(fault_of([](Json& json) { json["profiles"][0]["mini_batch"][0]["workers"] = 0; }) == Fault::corrupt);
  CHECK(fault_of([](Json& json) { json["profiles"][0]["mini_batch"][0]["samples"] = 1.5; }) == Fault::corrupt);
}

TEST_CASE("the database does not grow for ever: what was measured longest ago goes") {
  Learner learner;
  for (size_t i = 0; i < Profiles::kMostEntries + 3; ++i) {
    learner.job.data.batch = static_cast<int64_t>(i + 1);
    learner.learn(stage({{"cpu", 4, 0.010}}, 0));
  }
  CHECK(learner.profiles.entries().size() == Profiles::kMostEntries);
  learner.job.data.batch = 1;
  CHECK(learner.profiles.find(describe_work(learner.job, "cpu", learner.host)) == nullptr);
  learner.job.data.batch = 4;
  CHECK(learner.profiles.find(describe_work(learner.job, "cpu", learner.host)) != nullptr);
}

}  // namespace
}  // namespace estrain::profile

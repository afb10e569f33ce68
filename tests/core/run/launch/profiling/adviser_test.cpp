#include "core/run/launch/profiling/adviser.h"

#include <doctest/doctest.h>

#include "tests/error_of.h"

namespace estrain::launch {
namespace {

TEST_CASE("over several hosts the launcher's worker stays, however slow it is") {
  spec::JobSpec spec;
  spec.job.ests = 4;
  spec.model.name = "mlp";
  spec.train.clip_grad_norm = 1;
  AdviserState adviser(spec, {});
  decisions::RunState job;
  Course course{.job = job};
  advise(adviser, HostKnown{{"a CPU", 8, "1"}, false}, course);
  job.ests = 4;
  std::vector<SpeedMeter::Worker> done;
  for (const char* device : {"cpu", "nodeB/cpu", "nodeB/cpu"}) {
    const auto id = std::ssize(job.workers);
    decisions::Member member;
    member.id = decisions::WorkerId(id);
    member.device = *placement::parse_device(device);
    job.workers.push_back(member);
    job.held.push_back(member.device);
    done.push_back({id, device, 1, 0ns, 0});
  }
  advise(adviser, StageBegan{Step(0)}, course);
  for (int64_t step = 1; step <= 60; ++step) {
    course.time += 110ms;
    for (SpeedMeter::Worker& worker : done) {
      worker.computing += (worker.id == 0 ? 100 : 1) * 1ms;
      ++worker.mini_batches;
    }
    advise(adviser, WorkSeen{Step(step), course.time, 0, Step(step), done}, course);
  }
  const Devices rest = placement::devices_from({"cpu", "nodeB/cpu"});
  const auto shrunk_for = [&](const std::string& own) {
    const std::vector<AdviceAction> actions = advise(adviser, DevicesReclaimed{rest, rest, own}, course);
    REQUIRE(actions.size() == 1);
    CHECK(actions[0].reason == "devices were reclaimed");
    return placement::devices_of(std::get<Propose>(actions[0].deed).change.devices);
  };
  const auto others = shrunk_for("nodeB");
  CHECK(others == placement::devices_from({"nodeB/cpu"}));  // the best plan, where it may be had
  const auto shrunk = shrunk_for("");
  CHECK(shrunk == rest);
}

TEST_CASE("speeds that nobody has measured refuse a question; devices that a user names end the trial of a growth") {
  spec::JobSpec spec;
  decisions::RunState job;
  AdviserState adviser(spec, {});
  const Course course{.job = job};
  advise(adviser, HostKnown{{"a CPU", 8, "1"}, false}, course);
  CHECK(error_of([&] { advise(adviser, BestAsked{}, course); }).fault() == Fault::usage);
  CHECK(error_of([&] { advise(adviser, OfferMade{}, course); }).fault() == Fault::usage);
  adviser.past.trial = GrowthTrial{};
  CHECK(advise(adviser, DevicesOrdered{}, course).empty());
  CHECK_FALSE(adviser.past.trial);
  adviser.past.trial = GrowthTrial{};
  adviser.tried["0=4 "] = {0.5, course.time};
  CHECK(advise(adviser, BatchReplaced{}, course).empty());  // with another batch
  CHECK_FALSE(adviser.past.trial);
  CHECK(adviser.tried.empty());
  advise(adviser, PlanAdopted{0.5, "measured"}, course);
  CHECK(adviser.past.estimated_step_seconds == 0.5);
  CHECK(adviser.past.plan_reason == "measured");
}

}  // namespace
}  // namespace estrain::launch

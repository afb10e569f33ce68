#include <doctest/doctest.h>

#include "core/planning/simulate/worlds/worlds.h"
#include "tests/core/planning/simulate/small_worlds.h"
#include "tests/error_of.h"

namespace estrain::simulate {
namespace {

const std::string kTraceHeader =
    "row,name,submit_s,model,max_parallelism,batch_per_est,epochs,heterogeneous,preferred_gpu\n";

// V100: 1 s / 1.35 at batch 8, twice that at batch 16; T4 four times as long.
void write_step_times(const ScratchFolder& folder) {
  const double unit = 1 / 1.35;
  folder.write(
      "step_times.csv",
      fmt::format("model,batch_per_est,gpu,mode,seconds,source\nbert,8,v100,D1,{0},fig12\nbert,8,t4,D1,{2},fig12\n"
                  "bert,8,v100,plain,99,fig12\nbert,16,v100,\"D1, 8 ESTs, per EST, switching off\",{1},fig11\n"
                  "bert,16,v100,\"D1, 8 ESTs, per EST, switching on\",99,fig11\n",
                  unit, 2 * unit, 4 * unit));
}

scheduling::Shape shape(int32_t v100, int32_t t4) {
  scheduling::Shape shape;
  shape.devices = {v100, t4};
  shape.hosts = {v100 > 0, t4 > 0};
  return shape;
}

TEST_CASE("a step lasts as long as the device with most ESTs, spread as well as can be") {
  const ScratchFolder folder;
  write_step_times(folder);
  // 2 epochs of 886.41 samples, 8 ESTs of batch 8: 27.7 steps.
  const std::string trace = folder.write("t.csv", kTraceHeader + "0,a,100,bert,8,8,2,1,v100\n");
  const auto world = open_world({folder.path(), trace, "1x8:v100,1x4:t4"});
  const Workload workload = world->make("1", {}, {}, 1);
  const scheduling::Outlook& outlook = *workload.jobs[0]->facts.outlook;
  const double steps = 2 * 886.41 / 64;
  const auto seconds = [&](int32_t v100, int32_t t4) { return outlook.seconds_left(shape(v100, t4)) / steps; };
  CHECK(seconds(8, 0) == doctest::Approx(1));
  CHECK(seconds(3, 0) == doctest::Approx(3));
  CHECK(seconds(0, 4) == doctest::Approx(8));
  CHECK(seconds(1, 1) == doctest::Approx(7));  // 7 + 1: 7 s and 4 s
  CHECK(seconds(2, 4) == doctest::Approx(4));  // 4 + 4, 1 each: no need for the last T4
  // Seen at 120, when the round in which it is submitted ends; 20 s, then 27.7 s on all.
  CHECK(jcts(run_once(*world, "1", "fifo"))["a"] == doctest::Approx(120 + 20 + steps - 100));
  CHECK(figures_of(run_once(*world, "1", "fifo")).makespan == 120);
  CHECK(figures_of(run_once(*world, "1", "fifo", {Charge::Kind::seconds, 50})).makespan == 180);
  CHECK(jcts(run_once(*world, "1", "fifo", {Charge::Kind::seconds, 0}))["a"] == doctest::Approx(120 + steps - 100));
}

TEST_CASE("of jobs with one name the last counts, at the place of the first") {
  const ScratchFolder folder;
  write_step_times(folder);
  const std::string trace = folder.write("t.csv", kTraceHeader +
                                                      "0,a,100,bert,8,8,2,1,v100\n1,b,100,bert,1,16,1,0,v100\n"
                                                      "2,a,200,bert,12,8,2,0,t4\n");
  const auto world = open_world({folder.path(), trace, "2x8:v100,1x4:t4"});
  const Workload workload = world->make("1", {}, {}, 1);
  REQUIRE(workload.jobs.size() == 2);
  CHECK(workload.jobs[0]->facts.name == "b");
  CHECK(workload.jobs[0]->facts.outlook->seconds_left(shape(1, 0)) == doctest::Approx(886.41 / 16 * 2));
  const scheduling::JobView& last = workload.jobs[1]->facts;
  CHECK(last.submitted == 200);
  CHECK(last.order == 0);
  CHECK(last.requested == 12);
  CHECK(last.type == 0);  // there are only 4 T4
}

TEST_CASE("what the tables do not have") {
  const ScratchFolder folder;
  write_step_times(folder);
  const auto message = [&](const std::string& row, const std::string& cluster) {
    const Error error = error_of([&] {
      open_world({folder.path(), folder.write("t.csv", kTraceHeader + row), cluster});
    });
    CHECK(error.exit_code() == 2);
    return error.message();
  };
  CHECK(message("0,a,0,gpt,1,8,1,0,v100\n", "1x8:v100").find("model \"gpt\"") != std::string::npos);
  CHECK(message("0,a,0,bert,1,8,1,0,p100\n", "1x8:v100").find("the cluster has no \"p100\"") != std::string::npos);
  CHECK(message("0,a,0,bert,9,8,1,0,v100\n", "1x8:v100").find("asks for 9 devices") != std::string::npos);
  CHECK(message("0,a,0,bert,1,8,1,2,v100\n", "1x8:v100").find("is not from 0 to 1") != std::string::npos);
}

TEST_CASE("the easyscale policies follow the published simulator in its world alone, and the paper elsewhere") {
  const ScratchFolder folder;
  write_step_times(folder);
  const auto world =
      open_world({folder.path(), folder.write("t.csv", kTraceHeader + "0,a,0,bert,1,8,1,1,v100\n"), "1x2:v100,1x2:t4"});
  CHECK(scheduling::make_policy("easyscale-heter", 1, world->easyscale_rules()).holds_idle_devices);
  CHECK_FALSE(scheduling::make_policy("easyscale-heter", 1).holds_idle_devices);
  CHECK_FALSE(scheduling::make_policy("easyscale-heter:rule=paper", 1, scheduling::EasyscaleRules::simulator)
                  .holds_idle_devices);
  CHECK(scheduling::make_policy("easyscale-heter:rule=simulator", 1).holds_idle_devices);
}

}  // namespace
}  // namespace estrain::simulate

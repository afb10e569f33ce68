#include <doctest/doctest.h>
#include <fmt/format.h>

#include "core/planning/simulate/worlds/pollux_application.h"
#include "core/planning/simulate/worlds/worlds.h"
#include "tests/core/planning/simulate/small_worlds.h"
#include "tests/error_of.h"

namespace estrain::simulate {
namespace {

const std::string kWorkloadHeader = "name,time_s,application,num_replicas,batch_size\n";

TEST_CASE("a job runs by the rules: the charge, progress, epochs that end at whole seconds") {
  const ScratchFolder folder;
  write_pollux_tables(folder);
  const auto world = open_world({folder.path(), folder.write("t.csv", kWorkloadHeader + "a,10,bert,1,12\n"), ""});
  // Seen at 60; 30 s charge; an epoch of 100 steps takes 201.7 s and ends after 202 whole ones, twice: 60 + 30 + 404.
  const SimulationResult result = run_once(*world, "1", "fifo");
  CHECK(jcts(result)["a"] == 484);
  CHECK(result.charge == 30);
  CHECK(result.jobs[0].started == 60);
  CHECK(jcts(run_once(*world, "1", "fifo", {Charge::Kind::seconds, 0}))["a"] == 454);
  CHECK(figures_of(result).makespan == 494);
  CHECK(figures_of(result).resizes_per_job == 0);
}

TEST_CASE("half a second is rounded to the even whole one") {
  for (const auto& [step, seconds] : std::map<std::string, double>{{"0.025", 2}, {"0.035", 4}, {"0.045", 4}}) {
    const ScratchFolder folder;
    write_pollux_tables(folder, step);
    const auto world = open_world({folder.path(), folder.write("t.csv", kWorkloadHeader + "a,60,bert,1,12\n"), ""});
    CHECK(jcts(run_once(*world, "1", "fifo"))["a"] == 30 + 2 * seconds);  // 2.5, 3.5, 4.5
  }
}

TEST_CASE("who waits starts at the round after a completion") {
  const ScratchFolder folder;
  write_pollux_tables(folder);
  const std::string trace = folder.write("t.csv", kWorkloadHeader + "a,60,bert,1,12\nb,61,bert,1,12\n");
  const auto world = open_world({folder.path(), trace, ""});
  const SimulationResult result = run_once(*world, "1", "fifo-serial");
  CHECK(jcts(result)["a"] == 434);             // ends at 494
  CHECK(jcts(result)["b"] == 540 + 434 - 61);  // starts at 540
}

TEST_CASE("tables: rotations are one placement, batches lie on lines, progress is the least of all batches") {
  const BatchLimits limits{4, 12, 12, 384, 2, false};
  PolluxApplication app("bert", limits);
  app.add_placement("31", 4, {1, 0.5});
  app.add_placement("31", 8, {2, 0.7});
  app.add_between(2, 5, 4, {9, 3});
  app.add_validation(12, 0, {100, 100, 1, 3});
  app.add_validation(24, 0, {99, 50, 3, 5});
  app.add_validation(12, 1, {200, 200, 1, 3});
  app.add_validation(24, 1, {210, 100, 3, 5});
  app.finish("t.csv");
  CHECK(app.times({1, 3}, 4)->step == 1);
  CHECK(app.times({3, 0, 1}, 7)->step == 1.75);
  CHECK(app.times({3, 1}, 7)->sync == doctest::Approx(0.65).epsilon(1e-12));
  CHECK(app.times({3, 2}, 4)->step == 9);
  CHECK(!app.times({4, 4}, 4));
  CHECK(app.progress(1) == 99);
  CHECK(app.progress(2) == 200);
  CHECK(app.noise(18, 0).sqr == 2);
  CHECK(app.noise(18, 0).var == 4);
  CHECK(app.gain(24, 0) == (5 + 3) / (5.0 / 2 + 3));
  CHECK(app.iterations(18, 1) == 150);
}

TEST_CASE("a batch is spread in as few rounds as memory allows; one device above the initial batch takes two") {
  PolluxApplication app("bert", {4, 12, 12, 384, 2, false});
  const auto split = [&](double batch, int64_t devices) {
    const BatchSplit found = app.split(batch, devices);
    return std::pair(found.local, found.accumulated);
  };
  CHECK(split(12, 1) == std::pair<int64_t, int64_t>(12, 0));
  CHECK(split(13, 1) == std::pair<int64_t, int64_t>(7, 1));
  CHECK(split(48, 1) == std::pair<int64_t, int64_t>(12, 3));
  CHECK(split(48, 3) == std::pair<int64_t, int64_t>(8, 1));
  CHECK(split(384, 7) == std::pair<int64_t, int64_t>(10, 4));  // 11 each would be 385
}

TEST_CASE("with a free batch a job runs at the best one; learnt, it gets there after its first measurement") {
  const ScratchFolder folder;
  write_pollux_tables(folder, "2.4");
  const auto world = open_world({folder.path(), folder.write("t.csv", kWorkloadHeader + "a,60,bert,1,12\n"), ""});
  // The gain is batch / 12, and the step time grows more slowly: 32 x 12 = 384 samples in 32 rounds on one device.
  const double given = jcts(run_once(*world, "1", "estrain"))["a"];
  const double free = jcts(run_once(*world, "1", "estrain:batch=free"))["a"];
  // It keeps its first devices: the tables are too small for more.
  const std::string learns = "estrain:batch=free:goodput=learnt:patience=1000";
  const double learnt = jcts(run_once(*world, "1", learns))["a"];
  CHECK(given > 0);
  CHECK(free <= given);
  CHECK(learnt >= free);
  CHECK(learnt == jcts(run_once(*world, "1", learns))["a"]);
}

TEST_CASE("with shared goodput a job begins with what others of its application have measured") {
  const ScratchFolder folder;
  write_pollux_tables(folder, "2.4");
  std::string rows = "app,num_nodes,num_replicas,local_bsz,step_time_s,sync_time_s\n";
  for (int devices = 2; devices <= 64; ++devices)  // hardly faster than two
    rows += fmt::format("bert,{},{},4,{},1\n", (devices + 3) / 4, devices, 1 + 0.3 * devices);
  folder.write("pollux_interpolated.csv", rows);
  const auto two =
      open_world({folder.path(), folder.write("t.csv", kWorkloadHeader + "a,60,bert,1,12\nb,2000,bert,1,12\n"), ""});
  const auto once = [&](const std::string& goodput) {
    return jcts(run_once(*two, "1", "estrain:batch=free:patience=1000:goodput=" + goodput));
  };
  const auto alone = once("learnt"), together = once("shared");
  CHECK(together.at("b") < alone.at("b"));
  CHECK(together.at("b") < together.at("a"));
  CHECK(together == once("shared"));
}

TEST_CASE("workloads of one file") {
  const ScratchFolder folder;
  write_pollux_tables(folder);
  const std::string trace =
      folder.write("t.csv", "load,workload," + kWorkloadHeader + "0.5,2,a,0,bert,1,12\n1.0,1,b,0,bert,2,12\n");
  const auto world = open_world({folder.path(), trace, ""});
  CHECK(world->workloads() == std::vector<std::string>{"0.5/2", "1.0/1"});
  // Two devices: 6 samples each in 1.2 s; 120 s an epoch.
  CHECK(jcts(run_once(*world, "1.0/1", "fifo"))["b"] == 60 + 30 + 240);
}

TEST_CASE("traces that are wrong") {
  const ScratchFolder folder;
  write_pollux_tables(folder);
  const auto message = [&](const std::string& text, Fault fault) {
    const Error error = error_of([&] { open_world({folder.path(), folder.write("t.csv", text), ""}); });
    CHECK(error.fault() == fault);
    CHECK(error.exit_code() == 2);
    return error.message();
  };
  CHECK(message(kWorkloadHeader + "a,-1,bert,1,12\n", Fault::spec).find("t.csv:2: column time_s: -1 is below 0") !=
        std::string::npos);
  CHECK(message(kWorkloadHeader + "a,0,bert,65,12\n", Fault::infeasible)
            .find("job a asks for 65 devices, the cluster has 64") != std::string::npos);
  CHECK(message(kWorkloadHeader + "a,0,gpt,1,12\n", Fault::spec).find("application \"gpt\" is not in the tables") !=
        std::string::npos);
  CHECK(message(kWorkloadHeader + "a,0,bert,1,385\n", Fault::spec).find("largest batch") != std::string::npos);
  CHECK(message("name,application\n", Fault::spec).find("no column \"time_s\"") != std::string::npos);
  CHECK(message(kWorkloadHeader, Fault::spec).find("no jobs") != std::string::npos);
  const std::string trace = folder.write("t.csv", kWorkloadHeader + "a,0,bert,8,12\n");
  const auto world = open_world({folder.path(), trace, ""});
  CHECK(error_of([&] { run_once(*world, "1", "fifo"); }).message() ==
        "job a: bert was not measured on 8 devices of 2 hosts");
}

}  // namespace
}  // namespace estrain::simulate

#include <doctest/doctest.h>

#include "core/planning/simulate/worlds/worlds.h"
#include "tests/core/planning/simulate/small_worlds.h"
#include "tests/error_of.h"

namespace estrain::simulate {
namespace {

const std::string kDurationsHeader = "job,vc,submit_s,num_gpus,duration_s\n";

TEST_CASE("tiresias in time: a job that had its share of 16 device-hours makes way") {
  const ScratchFolder folder;
  const std::string trace = folder.write("t.csv", kDurationsHeader + "a,x,0,64,3000\nb,x,100,64,600\n");
  const auto world = open_world({folder.path(), trace, "8x8"});
  // a starts at 60 and reaches 57,600 device-seconds at 960; b runs from 960 to 1,560, then a its remaining 2,100 s.
  const SimulationResult result = run_once(*world, "1", "tiresias");
  CHECK(jcts(result) == std::map<std::string, double>{{"a", 3660}, {"b", 1460}});
  CHECK(figures_of(result).resizes_per_job == 0.5);
  CHECK(figures_of(result).mean_jct == 2560);
  CHECK(figures_of(result).median_jct == 2560);
  CHECK(figures_of(result).p99_jct == doctest::Approx(1460 + 0.99 * 2200));
  CHECK(figures_of(result).mean_devices_in_use == doctest::Approx(64.0 * 3600 / 3660));
  CHECK(jcts(run_once(*world, "1", "fifo")) == std::map<std::string, double>{{"a", 3060}, {"b", 3560}});
  // Each of the three starts costs 30 s: a has 870 s done at 960.
  CHECK(jcts(run_once(*world, "1", "tiresias", {Charge::Kind::seconds, 30})) ==
        std::map<std::string, double>{{"a", 1620 + 30 + 2130}, {"b", 1490}});
}

TEST_CASE("the clock starts with the first job and jumps over times without any") {
  const ScratchFolder folder;
  const std::string trace = folder.write("t.csv", kDurationsHeader + "a,x,1000000,1,10\nb,x,2000030,1,10\n");
  const auto world = open_world({folder.path(), trace, "1x1"});
  const SimulationResult result = run_once(*world, "1", "fifo");
  CHECK(result.rounds == 2);
  CHECK(jcts(result)["a"] == 70);
  CHECK(jcts(result)["b"] == 1'000'080 - 1'000'030 + 10);
  CHECK(figures_of(result).makespan == 1'000'090);
}

TEST_CASE("a policy that acts on events loses no time to rounds") {
  const ScratchFolder folder;
  const std::string trace = folder.write("t.csv", kDurationsHeader + "a,x,0,2,1000\nb,x,7,1,100\nc,x,3000,2,10\n");
  const auto world = open_world({folder.path(), trace, "1x2"});
  const SimulationResult result = run_once(*world, "1", "estrain");
  // From 7 to 107 b has one device, and a the other: half its speed.
  CHECK(jcts(result)["b"] == doctest::Approx(100));
  CHECK(jcts(result)["a"] == doctest::Approx(1050));
  CHECK(jcts(result)["c"] == doctest::Approx(10));
  CHECK(figures_of(result).mean_wait == 0);
  CHECK(jcts(run_once(*world, "1", "fifo"))["a"] == 1060);
}

TEST_CASE("fewer devices than ESTs: as slow as the one with most") {
  const ScratchFolder folder;
  const std::string trace = folder.write("t.csv", kDurationsHeader + "a,x,0,5,100\nb,x,0,3,1\n");
  const auto world = open_world({folder.path(), trace, "1x5"});
  const Workload workload = world->make("1", {}, {}, 1);
  const scheduling::Outlook& outlook = *workload.jobs[0]->facts.outlook;
  CHECK(outlook.seconds_left(scheduling::packed(*workload.cluster, 0, 5)) == 100);
  CHECK(outlook.seconds_left(scheduling::packed(*workload.cluster, 0, 4)) == 200);
  CHECK(outlook.seconds_left(scheduling::packed(*workload.cluster, 0, 2)) == 300);
}

TEST_CASE("the same seed gives the same bytes") {
  const ScratchFolder folder;
  std::string rows = kDurationsHeader;
  for (int i = 0; i < 40; ++i) rows += fmt::format("j{},vc{},{},{},{}\n", i, i % 3, i * 37, 1 + i % 7, 50 + i * i);
  const auto world = open_world({folder.path(), folder.write("t.csv", rows), "2x4"});
  for (const char* policy : {"fifo", "fifo-backfill", "fifo-serial", "srtf", "tiresias", "optimus", "philly",
                             "easyscale-homo", "easyscale-heter", "estrain"}) {
    const SimulationResult result = run_once(*world, "1", policy);
    CHECK_MESSAGE(result.jobs.size() == 40, policy);
    CHECK(to_json(result).dump() == to_json(run_once(*world, "1", policy)).dump());
    CHECK(format_page("", {result}) == format_page("", {run_once(*world, "1", policy)}));
  }
}

TEST_CASE("clusters as they are typed") {
  const scheduling::Cluster cluster = parse_cluster("2x8:v100,1x4:t4");
  CHECK(cluster.devices() == 20);
  CHECK(cluster.types() == std::vector<std::string>{"v100", "t4"});
  for (const char* wrong : {"8", "x8", "2x", "0x8", "2x8,", "2x8:v100,a"}) {
    CHECK_MESSAGE(error_of([&] { parse_cluster(wrong); }).fault() == Fault::usage, wrong);
  }
}

TEST_CASE("Philly's machines, ITP's clusters, and none") {
  const ScratchFolder folder;
  const std::string trace = folder.write("t.csv", kDurationsHeader + "a,x,0,3,10\n");
  CHECK(error_of([&] { open_world({folder.path(), trace, ""}); }).message() == "the cluster of workload 1 is unknown");
  folder.write("elasticflow_throughputs.csv", "gpu\n");
  CHECK(open_world({folder.path(), trace, ""})->make("1", {}, {}, 1).cluster->devices() == 512);
  folder.write("philly_machines.csv", "machine,gpus_official\nm0,2\nm1,8\n");
  CHECK(open_world({folder.path(), trace, ""})->make("1", {}, {}, 1).cluster->devices() == 10);
  const std::string large = folder.write("l.csv", kDurationsHeader + "a,x,0,11,10\n");
  const Error error = error_of([&] { open_world({folder.path(), large, ""}); });
  CHECK(error.message().find("job a asks for 11 devices, the cluster has 10") != std::string::npos);
  CHECK(error.exit_code() == 2);
}

TEST_CASE("a job on more hosts than it needs is as slow as its model was measured to be, or the models in the mean") {
  const ScratchFolder folder;
  folder.write("placement_slowdown.csv",
               "model,gpus,nodes,rel_speed\nvgg,2,1,1.0\nvgg,2,2,0.5\nvgg,4,2,0.4\nvgg,4,4,0.2\nnet,2,2,1.0\n");
  const std::string trace = folder.write(
      "t.csv",
      "job,model,submit_s,num_gpus,duration_s\na,vgg,0,2,100\nb,net,0,2,100\nc,other,0,2,100\nd,vgg,0,4,100\n");
  const auto world = open_world({folder.path(), trace, "4x2"});
  const Workload workload = world->make("1", {}, {}, 1);
  const auto seconds = [&](size_t job, int32_t devices, int32_t hosts) {
    return workload.jobs[job]->facts.outlook->seconds_left({{devices}, {hosts}});
  };
  CHECK(seconds(0, 2, 1) == 100);
  CHECK(seconds(0, 2, 2) == 200);
  CHECK(seconds(1, 2, 2) == 100);
  CHECK(seconds(2, 2, 2) == doctest::Approx(100 / 0.75));
  CHECK(seconds(3, 4, 2) == 100);  // four devices need two hosts
  CHECK(seconds(3, 4, 4) == 200);
  folder.write("placement_slowdown.csv", "model,gpus,nodes,rel_speed\nvgg,2,2,1.5\n");
  CHECK(error_of([&] {
          open_world({folder.path(), trace, "4x2"});
        })
            .message()
            .find("rel_speed 1.5") != std::string::npos);
}

TEST_CASE("waits are told by their cause where owners have quotas, and starts out of order are counted") {
  const ScratchFolder folder;
  folder.write("philly_vc_nodes.csv", "vc,nodes_8gpu\nx,2\ny,1\n");
  // a and b leave three devices on each of two hosts. c finds no eight on one host, d starts before it. e is beyond
  // y's quota.
  const std::string trace = folder.write("t.csv", kDurationsHeader +
                                                      "a,z,0,5,1000\nb,y,0,5,1000\nc,x,100,8,600\nd,x,101,3,600\n"
                                                      "e,y,102,8,600\nf,x,103,1,1\n");
  const auto world = open_world({folder.path(), trace, "2x8"});
  const SimulationResult result = run_once(*world, "1", "philly:tries=1000");
  const auto job = [&](const std::string& name) { return *std::ranges::find(result.jobs, name, &JobResult::name); };
  CHECK(job("c").waits.fair_share == 0);
  CHECK(job("c").waits.fragmentation > 900);
  CHECK(job("d").is_out_of_order);
  CHECK_FALSE(job("c").is_out_of_order);
  CHECK(job("e").waits.fair_share > 900);
  const Delays delays = delays_of(result);
  CHECK(delays.small.jobs == 1);  // f ran too briefly
  CHECK(delays.small.out_of_order == 1);
  CHECK(delays.large.fragmentation >= 1);
  CHECK(delays.large.fair_share == 1);
  CHECK(to_json(result).at("delays").at("large").at("jobs") == 4);
  CHECK(format_delays({result}).find("(Philly, Table 2)") != std::string::npos);
  folder.write("philly_vc_nodes.csv", "vc,nodes_8gpu\n");
  CHECK(format_delays({run_once(*open_world({folder.path(), trace, "2x8"}), "1", "fifo")}).empty());
}

TEST_CASE("a report has all that was promised") {
  const ScratchFolder folder;
  const std::string trace =
      folder.write("t.csv", "name,submit_s,num_gpu,duration_s,deadline_s\na,0,1,100,200\nb,0,1,100,200\n");
  const auto world = open_world({folder.path(), trace, "1x1"});
  const SimulationResult result = run_once(*world, "1", "fifo", {}, 7);
  const Json json = to_json(result);
  CHECK(
      json.dump() ==
      R"({"policy":"fifo","workload":"1","seed":7,"charge_s":0.0,"jobs":2,"mean_jct_s":220.0,"median_jct_s":220.0,)"
      R"("p99_jct_s":278.8,"makespan_s":280.0,"resizes_per_job":0.0,"mean_devices_in_use":0.7142857142857143,)"
      R"("mean_wait_s":120.0,"deadlines":2,"deadlines_met":1,"jct_s":{"a":160.0,"b":280.0},"wait_s":{"a":60.0,"b":180.0}})");
  CHECK(format_table({result, result}).find("mean of 2") != std::string::npos);
  const std::string page = format_page("a < b", {result});
  CHECK(page.find("a &lt; b") != std::string::npos);
  CHECK(page.find("<polygon") != std::string::npos);
}

}  // namespace
}  // namespace estrain::simulate

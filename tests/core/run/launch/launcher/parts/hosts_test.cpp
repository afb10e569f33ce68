#include "core/run/launch/launcher/parts/hosts.h"

#include <doctest/doctest.h>

#include "core/base/clock.h"
#include "tests/core/run/launch/launcher/parts/sample_run.h"

namespace estrain::launch {
namespace {

struct HostedRun : SampleRun {
  Hosts hosts{run->view(), processes(), run->state.hosts};
  comm::MessageSocket courier;
  std::map<int64_t, comm::MessageSocket> relayed;

  // Two workers here, two on nodeB.
  HostedRun() {
    train();
    add_worker("nodeB/cpu", 3, 4);
    add_worker("nodeB/cuda:1", 4, 6);
    auto [here, there] = comm::MessageSocket::pair();
    ChildOptions options;
    options.arguments = {"/bin/sh", "-c", "exit 2"};
    run->state.processes.courier = CourierProcess{ChildProcess::start(options), std::move(here)};
    courier = std::move(there);
    for (const int64_t worker : {0, 2, 3}) {
      auto [launchers, own] = comm::MessageSocket::pair();
      run->state.processes.workers[decisions::WorkerId(worker)].socket = comm::WorkerChannel(std::move(launchers));
      relayed[worker] = std::move(own);
    }
  }
  void hear(const Json& said) {
    courier.send(said);
    take(hosts.hear());
  }
  bool is_told(int64_t worker) {
    Json said;
    return relayed.at(worker).receive(&said, 0ms) == comm::Received::message;
  }
};

TEST_CASE("a worker's order names the workers of its host, and its place among all") {
  HostedRun sample;
  sample.run->state.hosts.stage = 7;
  comm::RunStage order;
  sample.hosts.place(3, order);
  CHECK(order.worker == WorkerRank(1));
  REQUIRE(order.ranges.size() == 2);
  CHECK(order.ranges[0].begin == VirtualRank(3));
  CHECK(order.ranges[1].end == VirtualRank(6));
  CHECK(order.kinds == std::vector<std::string>{"cpu", "cuda"});
  REQUIRE(order.beyond);
  CHECK(order.beyond->stage == 7);
  CHECK(order.beyond->first_worker == 2);
  CHECK(order.beyond->workers == 4);
  CHECK_FALSE(order.beyond->records);
  sample.hosts.place(0, order);  // the same order again: nothing of the other host is left in it
  CHECK(order.worker == WorkerRank(0));
  CHECK(order.kinds == std::vector<std::string>{"cpu", "cpu:avx2"});
  CHECK(order.beyond->first_worker == 0);
  CHECK(order.beyond->records);
  sample.run->job.workers.resize(2);
  sample.hosts.place(1, order);
  CHECK_FALSE(order.beyond);
}

TEST_CASE("the relay is told once of each worker on a lost host, however often the loss is noticed, and of no others") {
  HostedRun sample;
  sample.hear({{"say", "host_lost"}, {"host", "nodeB"}, {"why", "silent"}});
  CHECK(sample.is_told(2));
  CHECK(sample.is_told(3));
  CHECK_FALSE(sample.is_told(0));
  sample.hear({{"say", "host_lost"}, {"host", "nodeB"}, {"why", "connection lost"}});
  CHECK_FALSE(sample.is_told(2));
  sample.hear({{"say", "host_lost"}, {"host", ""}, {"why", "its own"}});
  CHECK_FALSE(sample.is_told(0));
  const std::vector<Json> lost = sample.logged("host_lost");
  REQUIRE(lost.size() == 1);
  CHECK(lost[0]["host"] == "nodeB");
  CHECK(lost[0]["why"] == "silent");
}

TEST_CASE("what is known of a link is added to, not replaced") {
  HostedRun sample;
  sample.hear({{"say", "link"}, {"host", "nodeB"}, {"link", 5}});
  sample.hear({{"say", "pace"}, {"host", "nodeB"}, {"pace", 6}});
  sample.hear({{"say", "something new"}, {"host", "nodeB"}});
  CHECK(sample.run->state.hosts.said == Json({{"nodeB", {{"link", 5}, {"pace", 6}}}}));
}

TEST_CASE("an event tells which gradients hosts send as factors, and why others go as sums") {
  HostedRun sample;
  const Json chosen = {{"parameters", 0},      {"gradient_bytes", 0}, {"bytes", 0},
                       {"without_factors", 3}, {"too_large", 2},      {"too_slow", 1}};
  Json said = chosen;
  said["say"] = "factors";
  sample.hear(said);
  const std::vector<Json> logged = sample.logged("factors");
  REQUIRE(logged.size() == 1);
  for (const auto& field : chosen.items()) CHECK(logged[0].value(field.key(), Json()) == field.value());
}

TEST_CASE("an error of the courier, and its end, end a job over several hosts; one that only serves may end") {
  HostedRun sample;
  Json said = codec::fields_of(comm::Failed(Error(Fault::mismatch, "other bits")));
  said["say"] = "error";
  said["gives_up"] = true;
  sample.hear(said);
  CHECK(sample.only<decisions::CannotGoOn>().error.message() == "other bits");
  CHECK(sample.hosts.left_to_others());
  sample.events.clear();
  sample.courier.close();
  sample.take(sample.hosts.hear());
  const Error error = sample.only<decisions::CannotGoOn>().error;
  CHECK(error.fault() == Fault::peer);
  CHECK(error.message().ends_with("ended with exit status 2"));
  CHECK_FALSE(sample.run->state.processes.courier);

  HostedRun alone;
  alone.run->job.workers.resize(2);
  alone.courier.close();
  alone.take(alone.hosts.hear());
  CHECK(alone.events.empty());
  CHECK_FALSE(alone.run->state.processes.courier);
}

}  // namespace
}  // namespace estrain::launch

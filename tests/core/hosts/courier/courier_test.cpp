// A courier whose other hosts are the test: what its launcher hears when hosts are lost, and when a host asks for the
// state.
#include "core/hosts/courier/courier.h"

#include <doctest/doctest.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <memory>

#include "core/base/files/unique_fd.h"
#include "core/checkpoint/state/manifest.h"
#include "core/hosts/agents/job_facts.h"
#include "core/hosts/exchange/shared_parts.h"
#include "core/hosts/exchange/wire.h"
#include "tests/core/hosts/pretended_connection.h"

namespace estrain::hosts {
namespace {

// A job of one EST and one worker per host; the first host is the coordinator's.
class CourierOf {
 public:
  CourierOf(const std::string& own, const std::vector<std::string>& others) : own_(own), memory(fd_.get()) {
    checkpoint::Manifest manifest;
    manifest.layout.append(checkpoint::Role::parameter, "p", "", checkpoint::DType::f32, {5});
    comm::MemoryPlan wanted;
    wanted.manifest = manifest.to_json();
    wanted.state_bytes = wanted.gradient_bytes = manifest.layout.bytes;
    wanted.ests = static_cast<int64_t>(others.size()) + 1;
    wanted.parameters = 1;
    wanted.digests = 1;
    wanted.ring_records = 8;
    memory.lay_out(wanted);
    memory.set_ready();
    net::Greeting greeting;
    greeting.host = own;
    courier =
        std::make_unique<Courier>(loop_, Courier::Options{.key = net::Key({}),
                                                          .own = greeting,
                                                          .memory = fd_.get(),
                                                          .doorbell = doorbell_.get(),
                                                          .tell = [this](const Json& words) { told.push_back(words); },
                                                          .opened = [this](uint64_t stage) { opened = stage; },
                                                          .aborted = [](uint64_t) {}});
    for (const std::string& host : others) {
      connections.push_back(std::make_shared<Pretended>(0, host));
      courier->links().take(connections.back());
    }
  }

  HostPlan plan(uint64_t stage, const std::vector<std::string>& hosts) const {
    HostPlan plan;
    plan.stage = stage;
    for (const std::string& host : hosts) {
      const auto rank = static_cast<int64_t>(plan.hosts.size());
      if (host == own_) plan.own = plan.hosts.size();
      plan.hosts.push_back({.name = host, .address = "", .workers = {{VirtualRank(rank), VirtualRank(rank + 1)}}});
    }
    return plan;
  }

  // "h1 is lost", "gives up": in the order in which its owner hears it.
  std::vector<std::string> words() const {
    std::vector<std::string> words;
    for (const Json& said : told)
      words.push_back(said.value("gives_up", false) ? "gives up" : said.value("host", "") + " is lost");
    return words;
  }

 private:
  const std::string own_;
  net::Loop loop_;
  UniqueFd fd_ = comm::JobMemory::create();
  UniqueFd doorbell_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

 public:
  comm::JobMemory memory;
  std::vector<Json> told;
  uint64_t opened = 0;
  std::vector<std::shared_ptr<Pretended>> connections;
  std::unique_ptr<Courier> courier;
};

bool asks_for_state(const Pretended& coordinator) {
  return std::ranges::find(coordinator.heard, Json{{"say", "need_state"}}) != coordinator.heard.end();
}

TEST_CASE("a coordinator says that it gives up before it says who is lost: its launcher must not go on without them") {
  CourierOf coordinator("", {"h1", "h2"});
  coordinator.courier->begin_stage(coordinator.plan(1, {"", "h1", "h2"}));
  for (const auto& host : coordinator.connections) host->says({{"say", "opened"}, {"stage", 1}});
  REQUIRE(coordinator.opened == 1);
  coordinator.told.clear();
  coordinator.connections[0]->is_lost();
  coordinator.connections[1]->is_lost();
  CHECK(coordinator.words() == std::vector<std::string>{"h1 is lost", "gives up", "h2 is lost"});
}

TEST_CASE("a host asks for the state if the coordinator knows of another evaluation as the last one") {
  CourierOf host("h1", {""});
  Pretended& coordinator = *host.connections[0];
  const auto begin = [&](uint64_t stage, int64_t evaluated) {
    coordinator.heard.clear();
    coordinator.says({{"do", "stage"},
                      {"plan", host.plan(stage, {"", "h1"}).to_json()},
                      {"facts", facts_of(host.memory)},
                      {"recorded", 0},
                      {"evaluated", evaluated}});
  };
  const auto send_state = [&](uint64_t stage, int64_t evaluated) {
    const HostPlan plan = host.plan(stage, {"", "h1"});
    coordinator.says({{"do", "state"}, {"lr", 0.1}, {"evaluated", evaluated}});
    coordinator.sends(state, round_number(stage, 0), SharedParts(host.memory, plan).state(0)[0]);
  };
  begin(1, -1);
  CHECK(asks_for_state(coordinator));  // it has none yet
  CHECK(host.opened == 0);
  send_state(1, -1);
  CHECK(host.opened == 1);
  begin(2, -1);
  CHECK_FALSE(asks_for_state(coordinator));
  CHECK(host.opened == 2);
  begin(3, 7);
  CHECK(asks_for_state(coordinator));
  CHECK(host.opened == 2);
  send_state(3, 7);
  CHECK(host.opened == 3);
  CHECK(host.memory.commit().evaluated() == Step(7));
}

}  // namespace
}  // namespace estrain::hosts

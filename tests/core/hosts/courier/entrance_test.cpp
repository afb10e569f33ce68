// The time limit of a stage's opening: what hosts tell the coordinator, and whom it sets aside.
#include "core/hosts/courier/entrance.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/base/files/unique_fd.h"
#include "core/hosts/agents/job_facts.h"
#include "tests/contains.h"
#include "tests/core/hosts/pretended_connection.h"
#include "tests/core/hosts/small_memory.h"

namespace estrain::hosts {
namespace {

Json opening_word(const CourierMessage& said) { return codec::encode(said); }

constexpr Nanoseconds kLookTick = 10ms;

// A host of a job of three, of one EST each.
struct OpeningHost {
  explicit OpeningHost(const std::string& own) : own_name(own), memory(fd.get()) {
    lay_out_small(memory, 3);
    net::Greeting greeting;
    greeting.host = own;
    links.emplace(
        loop,
        HostLinks::Options{
            .key = net::SharedKey({}),
            .own = greeting,
            .connected = [](const std::string&) {},
            .lost = [this](
                        const std::string& name, const Error& why,
                        bool silent) { lost.push_back(name + (silent ? ", which may live: " : ": ") + why.message()); },
            .message = [this](const std::string& from, const CourierMessage& said) { hear(from, said); },
            .measured = [](const std::string&, double, double) {},
            .landing = [](const std::string&, const net::FrameHead&) { return std::optional<Landing>(Landing{}); }});
    stage.emplace(loop, *links, [](const Error&) {});
    entrance.emplace(*links, *holding, *stage, own.empty(), [this](const HostPlan&) { opened = true; });
  }
  void hear(const std::string& from, const CourierMessage& said) {
    std::visit(
        [&](const auto& one) {
          if constexpr (requires { entrance->hear(from, one); }) entrance->hear(from, one);
        },
        said);
  }
  HostPlan plan() const {
    HostPlan plan;
    plan.stage = 4;
    for (const char* name : {"", "h1", "h2"}) {
      const auto rank = static_cast<int64_t>(plan.hosts.size());
      if (own_name == name) plan.own = plan.hosts.size();
      plan.hosts.push_back(
          {.name = name, .address = "127.0.0.1:1", .workers = {{VirtualRank(rank), VirtualRank(rank + 1)}}});
    }
    return plan;
  }
  std::shared_ptr<Pretended> take(const std::string& name) {
    auto connection = std::make_shared<Pretended>(0, name);
    links->take(connection);
    return connection;
  }
  void look_for(Nanoseconds time) {
    for (const MonotonicTime end = now + time; now < end; now += kLookTick) entrance->look(now);
  }

  const std::string own_name;
  net::Loop loop;
  UniqueFd fd = comm::JobMemory::create();
  comm::JobMemory memory;
  std::vector<std::string> lost;
  bool opened = false;
  MonotonicTime now{100s};
  std::unique_ptr<Holding> holding = std::make_unique<Holding>(fd.get());
  std::optional<HostLinks> links;
  std::optional<RunningStage> stage;
  std::optional<Entrance> entrance;
};

TEST_CASE("a coordinator sets the host aside that keeps a stage from opening, after fifteen seconds without progress") {
  OpeningHost coordinator("");
  const auto h1 = coordinator.take("h1"), h2 = coordinator.take("h2");
  coordinator.entrance->begin(coordinator.plan());
  coordinator.look_for(opening_patience / 2);
  h1->says(opening_word(StageOpened{4}));
  h2->says(opening_word(SaysWaits{4, {{"h1"}, 0}}));
  coordinator.look_for(opening_patience - 10 * kLookTick);
  CHECK(coordinator.lost.empty());
  h2->says(opening_word(SaysWaits{3, {{""}, 7}}));  // of a stage that is over
  coordinator.look_for(20 * kLookTick);
  REQUIRE(coordinator.lost.size() == 1);
  CHECK(coordinator.lost[0] == "h2, which may live: a stage has not opened for 15 s: it waits for h1");
  CHECK(h2->is_closed);
  CHECK_FALSE(h1->is_closed);
  CHECK_FALSE(coordinator.opened);
}

TEST_CASE("a host that is slow to take the state is not set aside") {
  OpeningHost coordinator("");
  const auto h1 = coordinator.take("h1"), h2 = coordinator.take("h2");
  coordinator.entrance->begin(coordinator.plan());
  h1->says(opening_word(StageOpened{4}));
  for (uint64_t bytes = 0; bytes < 20; ++bytes) {
    h2->says(opening_word(SaysWaits{4, {{""}, bytes}}));
    coordinator.look_for(opening_patience / 2);
  }
  CHECK(coordinator.lost.empty());
  h2->says(opening_word(StageOpened{4}));
  CHECK(coordinator.opened);
  coordinator.look_for(2 * opening_patience);
  CHECK(coordinator.lost.empty());
}

TEST_CASE("a host that has not opened the stage says once a second what it waits for") {
  OpeningHost host("h1");
  const auto coordinator = host.take("");
  host.entrance->follow({.plan = host.plan(), .facts = facts_of(host.memory), .recorded = 0});
  coordinator->heard.clear();
  host.look_for(2'500ms);
  REQUIRE(coordinator->heard.size() == 3);
  const Json waits = opening_word(SaysWaits{4, {{"h2", ""}, 0}});  // h2, and the state
  CHECK(coordinator->heard[0] == waits);
  CHECK(coordinator->heard[2] == waits);
  host.take("h2");
  host.look_for(1'500ms);
  CHECK(coordinator->heard.back().at("wait").at("hosts") == Json::array({""}));
}

TEST_CASE("each part of a frame of the state is progress: a slow network takes long for a frame") {
  OpeningHost host("h1");
  const auto coordinator = host.take("");
  host.take("h2");
  host.entrance->follow({.plan = host.plan(), .facts = facts_of(host.memory), .recorded = 0});
  host.entrance->hear(TellShares{4, StateShares{.from = {""}, .to = {"h1"}}});
  const auto bytes_told = [&] {
    host.look_for(1'100ms);
    return coordinator->heard.back().at("wait").at("bytes").get<uint64_t>();
  };
  const net::FrameHead head{.kind = state, .bytes = 64, .number = round_number(4, 0)};
  CHECK(bytes_told() == 0);
  coordinator->begins(head);
  CHECK(bytes_told() == 0);
  coordinator->goes_on(head, 16);
  CHECK(bytes_told() == 16);
  coordinator->goes_on({.kind = context, .bytes = 64, .number = round_number(4, 0)}, 48);
  CHECK(bytes_told() == 16);
  const std::vector<std::byte> whole(64);
  coordinator->sends(head.kind, head.number, whole);
  CHECK(bytes_told() == 0);  // this test drops the frame
}

}  // namespace
}  // namespace estrain::hosts

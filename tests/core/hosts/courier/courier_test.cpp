// A courier whose other hosts are the test: what its launcher hears when hosts are lost, and when a host asks for the
// state.
#include "core/hosts/courier/courier.h"

#include <doctest/doctest.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <memory>

#include "core/base/files/unique_fd.h"
#include "core/hosts/agents/job_facts.h"
#include "core/hosts/exchange/shared_parts.h"
#include "core/hosts/exchange/state_shares.h"
#include "core/hosts/exchange/wire.h"
#include "tests/core/hosts/pretended_connection.h"
#include "tests/core/hosts/small_memory.h"

namespace estrain::hosts {
namespace {

// A job of one EST and one worker per host, whose last host has the ESTs of those that are left out; the first host is
// the coordinator's.
class CourierOf {
 public:
  CourierOf(const std::string& own, const std::vector<std::string>& others, int64_t floats = 5)
      : own_(own), memory(fd_.get()) {
    lay_out_small(memory, static_cast<int64_t>(others.size()) + 1, floats);
    net::Greeting greeting;
    greeting.host = own;
    courier = std::make_unique<Courier>(
        loop_,
        Courier::Options{.key = net::SharedKey({}),
                         .own = greeting,
                         .memory = fd_.get(),
                         .doorbell = doorbell_.get(),
                         .tell = [this](const OwnerMessage& words) { told.push_back(codec::encode(words, "say")); },
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
    plan.hosts.back().workers.back().end = VirtualRank(memory.ests());
    return plan;
  }

  // Runs the loop until it holds, for five seconds at most.
  template <typename Holds>
  bool comes(Holds&& holds) {
    bool late = false;
    const auto end = loop_.once(60s, [&] {
      late = true;
      loop_.stop();
    });
    const auto look = loop_.every(5ms, [&] {
      if (holds()) loop_.stop();
    });
    loop_.run();
    loop_.restart();
    return !late;
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
  return std::ranges::any_of(
      coordinator.heard, [](const Json& said) { return said.value("is", "") == "state" && !said.value("has", true); });
}

// The message of that verb that a host has heard last; null: none.
Json heard(const Pretended& host, const std::string& verb) {
  const auto at = std::find_if(host.heard.rbegin(), host.heard.rend(),
                               [&](const Json& said) { return said.value("is", "") == verb; });
  return at == host.heard.rend() ? Json() : *at;
}

Json word(const CourierMessage& said) { return codec::encode(said); }

Json plan_said(const CourierOf& host, uint64_t stage, const std::vector<std::string>& hosts, bool in_shares,
               int64_t evaluated = -1) {
  return word(EnterStage{.plan = host.plan(stage, hosts),
                         .facts = facts_of(host.memory),
                         .recorded = 0,
                         .in_shares = in_shares,
                         .evaluated = evaluated});
}

Json shares_said(uint64_t stage, const std::vector<std::string>& from, const std::vector<std::string>& to,
                 int64_t evaluated = -1) {
  return word(TellShares{stage, {.from = from, .to = to, .lr = 0.1, .evaluated = evaluated}});
}

constexpr int64_t kFloats = 4096;  // four pages of state

TEST_CASE("a coordinator says that it gives up before it says who is lost: its launcher must not go on without them") {
  CourierOf coordinator("", {"h1", "h2"});
  coordinator.courier->begin_stage(coordinator.plan(1, {"", "h1", "h2"}));
  for (const auto& host : coordinator.connections) host->says(word(StageOpened{1}));
  REQUIRE(coordinator.opened == 1);
  coordinator.told.clear();
  coordinator.connections[0]->is_lost();
  coordinator.connections[1]->is_lost();
  CHECK(coordinator.words() == std::vector<std::string>{"h1 is lost", "gives up", "h2 is lost"});
}

std::vector<std::string> leave(const std::vector<std::pair<std::string, std::string>>& lost) {
  std::vector<LossReport> reports;
  for (const auto& [from, host] : lost) reports.push_back({from, {.host = host, .why = "it is silent"}});
  std::vector<std::string> names;
  for (const LostHost& one : hosts_to_leave(std::move(reports), {"", "h1", "h2", "h3", "h4"}))
    names.push_back(one.host);
  return names;
}

TEST_CASE(
    "of hosts that lost each other the one leaves that most have lost, of equals the last; its word does not count") {
  using Names = std::vector<std::string>;
  CHECK(leave({}) == Names{});
  CHECK(leave({{"h1", "h2"}}) == Names{"h2"});
  CHECK(leave({{"h2", "h1"}}) == Names{"h1"});
  CHECK(leave({{"h1", "h2"}, {"h2", "h1"}}) == Names{"h2"});
  CHECK(leave({{"h2", "h1"}, {"h1", "h2"}}) == Names{"h2"});
  CHECK(leave({{"h1", "h2"}, {"h1", "h3"}, {"h3", "h1"}, {"h2", "h1"}}) == Names{"h1"});
  CHECK(leave({{"h1", "h2"}, {"h2", "h1"}, {"h3", "h4"}}) == Names{"h4", "h2"});
  CHECK(leave({{"h2", "h1"}, {"h1", "h9"}}) == Names{"h9", "h1"});  // not in the last stage
}

TEST_CASE("a coordinator waits for further reports of a loss, and hears no more of a host that is lost") {
  CourierOf coordinator("", {"h1", "h2", "h3"});
  coordinator.courier->begin_stage(coordinator.plan(1, {"", "h1", "h2", "h3"}));
  for (const auto& host : coordinator.connections) host->says(word(StageOpened{1}));
  REQUIRE(coordinator.opened == 1);
  coordinator.told.clear();
  const auto reports = [&](size_t from, const std::string& lost) {
    for (const auto& host : coordinator.connections) host->says(word(StageOpened{1}));  // none is silent
    coordinator.connections[from - 1]->says(word(LostHost{lost, "it is silent"}));
  };
  reports(2, "h1");
  CHECK(coordinator.words().empty());
  reports(1, "h2");
  REQUIRE(coordinator.comes([&] { return !coordinator.told.empty(); }));
  reports(2, "h3");
  reports(1, "h3");
  REQUIRE(coordinator.comes([&] { return coordinator.told.size() > 1; }));
  reports(3, "h1");
  const MonotonicTime reported = MonotonicClock::now();
  REQUIRE(coordinator.comes([&] { return MonotonicClock::now() - reported > 400ms; }));
  CHECK(coordinator.words() == std::vector<std::string>{"h2 is lost", "h3 is lost"});
  coordinator.courier->begin_stage(coordinator.plan(2, {"", "h1", "h2", "h3"}));
  reports(3, "h1");
  REQUIRE(coordinator.comes([&] { return coordinator.told.size() > 2; }));
  CHECK(coordinator.words().back() == "h1 is lost");
}

TEST_CASE(
    "a host outside of the plan has no say in which hosts are lost; a report outlives a stage that keeps both hosts") {
  CourierOf coordinator("", {"h1", "h2", "h3"});
  const auto reports = [&](size_t from, const std::string& lost) {
    coordinator.connections[from - 1]->says(word(LostHost{lost, "it is silent"}));
  };
  // True if something is told while the hosts give signs of life.
  const auto tells_within = [&](Nanoseconds limit) {
    const MonotonicTime end = MonotonicClock::now() + limit;
    coordinator.comes([&] {
      for (const auto& host : coordinator.connections) host->says(word(StageOpened{0}));
      return !coordinator.told.empty() || MonotonicClock::now() > end;
    });
    return !std::exchange(coordinator.told, {}).empty();
  };
  coordinator.courier->begin_stage(coordinator.plan(1, {"", "h1", "h2", "h3"}));
  for (const auto& host : coordinator.connections) host->says(word(StageOpened{1}));
  REQUIRE(coordinator.opened == 1);
  reports(2, "h1");
  CHECK(tells_within(1s));
  coordinator.courier->begin_stage(coordinator.plan(2, {"", "h1", "h3"}));
  reports(2, "h1");
  CHECK_FALSE(tells_within(400ms));  // while the stage is being opened
  for (const auto& host : coordinator.connections) host->says(word(StageOpened{2}));
  REQUIRE(coordinator.opened == 2);
  reports(2, "h3");
  reports(1, "h2");
  CHECK_FALSE(tells_within(400ms));
  reports(1, "h3");
  coordinator.courier->begin_stage(coordinator.plan(3, {"", "h1", "h3"}));
  REQUIRE(tells_within(1s));
}

TEST_CASE("a host asks for the state if the coordinator knows of another evaluation as the last one") {
  CourierOf host("h1", {""});
  Pretended& coordinator = *host.connections[0];
  const auto begin = [&](uint64_t stage, int64_t evaluated) {
    coordinator.heard.clear();
    coordinator.says(plan_said(host, stage, {"", "h1"}, false, evaluated));
  };
  const auto send_state = [&](uint64_t stage, int64_t evaluated) {
    const HostPlan plan = host.plan(stage, {"", "h1"});
    coordinator.says(shares_said(stage, {""}, {"h1"}, evaluated));
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

TEST_CASE("an error of another host reaches the launcher with its cause") {
  CourierOf coordinator("", {"h1"});
  const Error replaced = Error(Fault::mismatch, "another build").advise("one file").caused_by("program_replaced");
  coordinator.connections[0]->says(word(CourierFailed("h1", replaced)));
  CHECK(coordinator.told.back() == Json({{"say", "error"},
                                         {"host", "h1"},
                                         {"gives_up", false},
                                         {"fault", static_cast<int>(Fault::mismatch)},
                                         {"message", "another build"},
                                         {"advice", "one file"},
                                         {"cause", "program_replaced"}}));
}

TEST_CASE("a host that is about to open a stage tells the coordinator what it waits for") {
  CourierOf host("h1", {""});
  Pretended& coordinator = *host.connections[0];
  coordinator.says(plan_said(host, 1, {"", "h1"}, false));
  REQUIRE(host.comes([&] { return !heard(coordinator, "waits").is_null(); }));
  CHECK(heard(coordinator, "waits").at("wait") == Json{{"hosts", {""}}, {"bytes", 0}});  // the state, and who sends it
}

TEST_CASE("a coordinator has the state of a joiner sent by all that have it, and tells nobody before all have spoken") {
  CourierOf coordinator("", {"h1", "h2"}, kFloats);
  Pretended &h1 = *coordinator.connections[0], &h2 = *coordinator.connections[1];
  const size_t whole = kFloats * sizeof(float);
  coordinator.courier->begin_stage(coordinator.plan(1, {"", "h1"}));
  CHECK_FALSE(heard(h1, "stage").at("in_shares"));  // h1 is the joiner: nobody else has anything
  h1.says(word(SaysHasState{1, false}));
  CHECK(h1.heard_bytes[state] == whole);
  h1.says(word(StageOpened{1}));
  REQUIRE(coordinator.opened == 1);
  coordinator.courier->begin_stage(coordinator.plan(2, {"", "h1", "h2"}));
  CHECK(heard(h2, "stage").at("in_shares"));
  h2.says(word(SaysHasState{2, false}));
  h2.says(word(SaysHasState{1, false}));  // of a stage that is over
  CHECK(heard(h2, "shares").is_null());
  CHECK(h2.heard_bytes[state] == 0);
  h1.says(word(SaysHasState{2, true}));
  for (const Pretended* host : {&h1, &h2}) {
    CHECK(heard(*host, "shares").at("shares").at("from") == Json::array({"", "h1"}));
    CHECK(heard(*host, "shares").at("shares").at("to") == Json::array({"h2"}));
  }
  CHECK(h2.heard_bytes[state] == whole / 2);
  CHECK(h1.heard_bytes[state] == whole);  // of the stage before
  h1.says(word(StageOpened{2}));
  CHECK(coordinator.opened == 1);
  h2.says(word(ReceivedState{"h2", 0, {{{"", whole / 2}, {"h1", whole / 2}}}}));
  CHECK(
      coordinator.told.back() ==
      Json({{"say", "received_state"}, {"host", "h2"}, {"step", 0}, {"shares", {{"", whole / 2}, {"h1", whole / 2}}}}));
  h2.says(word(StageOpened{2}));
  CHECK(coordinator.opened == 2);
}

TEST_CASE("a host that has the state sends its share before it opens the stage") {
  CourierOf host("h1", {"", "h2"}, kFloats);
  Pretended &coordinator = *host.connections[0], &joiner = *host.connections[1];
  coordinator.says(plan_said(host, 1, {"", "h1"}, false));
  coordinator.says(shares_said(1, {""}, {"h1"}));
  const size_t whole = kFloats * sizeof(float);
  coordinator.sends(state, round_number(1, 0), SharedParts(host.memory, host.plan(1, {"", "h1"})).state(0)[0]);
  REQUIRE(host.opened == 1);
  coordinator.heard.clear();
  coordinator.says(plan_said(host, 2, {"", "h1", "h2"}, true));
  CHECK_FALSE(asks_for_state(coordinator));
  CHECK(heard(coordinator, "state").at("has"));
  CHECK(host.opened == 1);  // it may have to send some
  CHECK(joiner.heard_bytes[state] == 0);
  coordinator.says(shares_said(2, {"", "h1"}, {"h2"}));
  CHECK(joiner.heard_bytes[state] == whole / 2);
  CHECK(coordinator.heard_bytes[state] == 0);
  CHECK(host.opened == 2);
}

TEST_CASE("a joiner takes each share from its sender, whatever comes first, and opens with the last byte") {
  CourierOf host("h2", {"", "h1"}, kFloats);
  Pretended &coordinator = *host.connections[0], &h1 = *host.connections[1];
  const std::vector<std::string> hosts = {"", "h1", "h2"};
  const HostPlan plan = host.plan(4, hosts);
  const std::span<std::byte> memory = SharedParts(host.memory, plan).state(0)[0];
  std::vector<std::byte> bits(memory.size());
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::byte>(i * 31 >> 3);
  const std::span<const std::byte> whole = bits;
  const size_t half = whole.size() / 2;
  const net::FrameHead of_h1 = {state, static_cast<uint32_t>(half), round_number(4, 0), 0};
  coordinator.says(plan_said(host, 4, hosts, true));
  CHECK(asks_for_state(coordinator));
  CHECK_FALSE(h1.offers(of_h1));  // not told yet that it sends some
  coordinator.says(shares_said(4, {"", "h1"}, {"h2"}));
  CHECK(h1.offers(of_h1));
  CHECK_FALSE(host.courier->is_fit());
  h1.sends(state, round_number(4, 0), whole.subspan(half, half / 2));
  coordinator.sends(state, round_number(4, 0), whole.first(half));
  CHECK(host.opened == 0);
  h1.sends(state, round_number(3, 0), whole.first(half / 2));  // of a stage that is over: dropped
  h1.sends(state, round_number(4, 0), whole.subspan(half + half / 2), half / 2);
  CHECK(host.opened == 4);
  CHECK(std::ranges::equal(memory, whole));
  CHECK(heard(coordinator, "received_state").at("shares") == Json({{"", half}, {"h1", half}}));
}

TEST_CASE("of a stage that ends before the state is there nothing counts, and what is on its way for it is dropped") {
  CourierOf host("h2", {"", "h1"}, kFloats);
  Pretended &coordinator = *host.connections[0], &h1 = *host.connections[1];
  const std::vector<std::string> hosts = {"", "h1", "h2"};
  const std::vector<std::byte> half(kFloats * sizeof(float) / 2), whole(kFloats * sizeof(float));
  coordinator.says(plan_said(host, 4, hosts, true));
  coordinator.says(shares_said(4, {"", "h1"}, {"h2"}));
  coordinator.sends(state, round_number(4, 0), half);
  coordinator.says(word(StageAborted{4}));
  CHECK(host.opened == 0);
  h1.sends(state, round_number(4, 0), half);
  CHECK(host.opened == 0);
  CHECK_FALSE(host.courier->is_fit());
  coordinator.heard.clear();
  coordinator.says(plan_said(host, 5, {"", "h2"}, false));
  CHECK(asks_for_state(coordinator));  // all of it
  coordinator.says(shares_said(5, {""}, {"h2"}));
  coordinator.sends(state, round_number(5, 0), whole);
  CHECK(host.opened == 5);
}

}  // namespace
}  // namespace estrain::hosts

#include "core/pool/hosts/attendance.h"

#include <doctest/doctest.h>

#include <csignal>

namespace estrain::pool {
namespace {

const Build kBuild{"1.0", "abc"};
AgentReport report(const std::string& life, int64_t beat) {
  AgentReport one;
  one.build = kBuild;
  one.life = life;
  one.beat = beat;
  one.devices = {"cpu", "cuda:0"};
  one.memory = 8e9;
  one.gpus = {{"cuda:0", 16e9}};
  one.rack = "r1";
  return one;
}

Attendance stranger() { return take_up_agent({"h1", kBuild, ""}, std::nullopt, std::nullopt, kNoTime); }

std::vector<AttendanceAction> hear(Attendance& one, const std::optional<AgentReport>& read, Nanoseconds now) {
  return decide(one, ReportRead{read}, MonotonicTime(now));
}

// The orders that are written now; nothing: the agent has these orders already.
std::optional<Orders> written(Attendance& one) {
  const auto actions = decide(one, OrdersDue{}, kNoTime);
  if (actions.empty()) return std::nullopt;
  REQUIRE(actions.size() == 1);
  return std::get<WriteOrders>(actions[0].deed).orders;
}

// One that has joined at second 1.
Attendance member() {
  Attendance one = stranger();
  hear(one, report("a", 1), 0s);
  REQUIRE(hear(one, report("a", 2), 1s).size() == 1);
  return one;
}

template <typename Deed>
const Deed* only(const std::vector<AttendanceAction>& actions) {
  REQUIRE(actions.size() == 1);
  return std::get_if<Deed>(&actions[0].deed);
}

Task task(const std::string& id, std::string_view kind = kLauncher) {
  return {.id = id, .job = 7, .kind = std::string(kind), .run = "run", .words = {"train"}, .log = "log"};
}

TaskReport told(const std::string& id) {
  TaskReport one;
  one.id = id;
  one.job = 7;
  return one;
}

TEST_CASE("an agent joins once it shows life, with the host's devices; a file alone may be of one that is gone") {
  Attendance one = stranger();
  CHECK(hear(one, report("a", 1), 0s).empty());
  CHECK(hear(one, report("a", 1), 1s).empty());
  CHECK_FALSE(one.is_member);
  const auto events = hear(one, report("a", 2), 2s);
  REQUIRE(only<AdmitHost>(events) != nullptr);
  CHECK(only<AdmitHost>(events)->devices == std::vector<std::string>{"h1/cpu", "h1/cuda:0"});
  CHECK(only<AdmitHost>(events)->memory == 8e9);
  CHECK(only<AdmitHost>(events)->gpus == std::map<std::string, double>{{"cuda:0", 16e9}});
  CHECK(only<AdmitHost>(events)->rack == "r1");
  const auto orders = written(one);
  REQUIRE(orders);
  CHECK(orders->to == "a");
  CHECK(orders->refusal == "");
  CHECK_FALSE(written(one));
  CHECK(hear(one, report("a", 3), 3s).empty());
}

TEST_CASE("an agent of another build, or with a name that is taken, is told why it is not wanted, once") {
  Attendance one = stranger();
  AgentReport other = report("a", 1);
  other.build.build = "def";
  hear(one, other, 0s);
  other.beat = 2;
  const auto events = hear(one, other, 1s);
  REQUIRE(only<RefuseHost>(events) != nullptr);
  CHECK(events[0].reason == "it is of estrain 1.0 (build def), and the daemon of 1.0 (build abc)");
  CHECK(written(one)->refusal == events[0].reason);
  other.beat = 3;
  CHECK(hear(one, other, 2s).empty());
  CHECK_FALSE(one.is_member);
  Attendance own = take_up_agent({"h0", kBuild, "that is the daemon's own host"}, std::nullopt, std::nullopt, kNoTime);
  hear(own, report("a", 1), 0s);
  CHECK(only<RefuseHost>(hear(own, report("a", 2), 0s)) != nullptr);
}

TEST_CASE("who is silent for 10 s is lost, and welcome again when it runs nothing more of what it had") {
  Attendance one = member();
  decide(one, TaskOrdered{task("t")}, kNoTime);
  AgentReport running = report("a", 3);
  running.tasks = {told("t")};
  CHECK(hear(one, running, 2s).empty());
  CHECK(one.told_of("t"));
  CHECK(hear(one, running, 12s).empty());
  REQUIRE(only<GiveUpHost>(hear(one, running, 12s + 1ns)) != nullptr);
  CHECK_FALSE(one.is_member);
  CHECK_FALSE(one.told_of("t"));
  CHECK(written(one)->tasks.empty());
  running.beat = 4;
  CHECK(hear(one, running, 20s).empty());
  running.beat = 5;
  running.tasks[0].ended = true;
  CHECK(only<AdmitHost>(hear(one, running, 21s)) != nullptr);
}

TEST_CASE("a file that cannot be read is silence: the agent stays with its tasks, and is lost after 10 s") {
  Attendance one = member();
  decide(one, TaskOrdered{task("t")}, kNoTime);
  written(one);
  CHECK(hear(one, std::nullopt, 2s).empty());
  CHECK(one.is_member);
  CHECK(one.orders.tasks.size() == 1);
  CHECK_FALSE(written(one));
  CHECK(hear(one, report("a", 3), 3s).empty());
  CHECK(hear(one, std::nullopt, 13s).empty());
  CHECK(only<GiveUpHost>(hear(one, std::nullopt, 13s + 1ns)) != nullptr);
  CHECK_FALSE(one.is_member);
}

TEST_CASE("an agent that ends, or whose place another one takes, is lost at once") {
  Attendance one = member();
  AgentReport gone = report("a", 3);
  gone.gone = true;
  CHECK(only<GiveUpHost>(hear(one, gone, 2s)) != nullptr);
  CHECK(hear(one, gone, 30s).empty());
  Attendance other = member();
  CHECK(only<GiveUpHost>(hear(other, report("b", 1), 2s)) != nullptr);
  CHECK(only<AdmitHost>(hear(other, report("b", 2), 3s)) != nullptr);
}

TEST_CASE("the end of a task is told once, before what was seen after it") {
  Attendance one = member();
  decide(one, TaskOrdered{task("launcher")}, kNoTime);
  decide(one, TaskOrdered{task("request", kRequest)}, kNoTime);
  AgentReport told_all = report("a", 3);
  told_all.tasks = {told("launcher"), told("request")};
  told_all.tasks[0].leads = true;
  told_all.tasks[0].looks = 1;
  told_all.tasks[0].look.emplace().step = 5;
  told_all.tasks[1].ended = true;
  told_all.tasks[1].code = 2;
  const auto events = hear(one, told_all, 2s);
  REQUIRE(events.size() == 2);
  const auto& ended = std::get<TellTaskEnd>(events[0].deed);
  CHECK(ended.task.id == "request");
  CHECK(ended.code == 2);
  CHECK(std::get<TellLook>(events[1].deed).look.step == 5);
  CHECK(one.told_of("launcher")->leads);
  CHECK_FALSE(one.told_of("request"));
  CHECK(hear(one, told_all, 3s).empty());
  REQUIRE(one.orders.tasks.size() == 1);
  decide(one, SignalOrdered{"launcher", SIGTERM}, kNoTime);
  CHECK(written(one)->tasks[0].signal == SIGTERM);
}

TEST_CASE("a daemon takes up the agents of the one before; an agent that has changed meanwhile joins anew") {
  Attendance before = member();
  decide(before, TaskOrdered{task("t")}, kNoTime);
  const Orders orders = *written(before);
  Attendance same = take_up_agent({"h1", kBuild, ""}, orders, report("a", 9), kNoTime);
  CHECK(same.is_member);
  REQUIRE(same.orders.tasks.size() == 1);
  CHECK(same.offered.size() == 2);
  decide(same, TaskOrdered{task("u")}, kNoTime);
  CHECK(written(same)->serial > orders.serial);
  Attendance other = take_up_agent({"h1", kBuild, ""}, orders, report("b", 1), kNoTime);
  CHECK_FALSE(other.is_member);
  CHECK(only<AdmitHost>(hear(other, report("b", 2), 1s)) != nullptr);
  CHECK(written(other)->serial > orders.serial);
  Attendance newer =
      take_up_agent({"h1", {"2.0", "x"}, ""}, orders, report("a", 9), kNoTime);  // of another build itself
  CHECK_FALSE(newer.is_member);
  CHECK(only<RefuseHost>(hear(newer, report("a", 10), 1s)) != nullptr);
}

TEST_CASE("an agent whose first report to a new daemon tells another build is lost") {
  Attendance before = member();
  AgentReport silent = report("a", -1), other = report("a", 9);
  other.build.build = "def";
  Attendance one = take_up_agent({"h1", kBuild, ""}, written(before), silent, kNoTime);
  REQUIRE(one.is_member);
  CHECK(only<GiveUpHost>(hear(one, other, 1s)) != nullptr);
  other.beat = 10;
  CHECK(only<RefuseHost>(hear(one, other, 2s)) != nullptr);
}

TEST_CASE("an agent that was lost brings its devices again, also if the daemon has been replaced meanwhile") {
  Attendance before = member();
  REQUIRE(only<GiveUpHost>(hear(before, report("a", 2), 12s)) != nullptr);
  Attendance one = take_up_agent({"h1", kBuild, ""}, written(before), report("a", 2), kNoTime);
  CHECK_FALSE(one.is_member);
  CHECK(only<AdmitHost>(hear(one, report("a", 3), 1s)) != nullptr);
  CHECK(take_up_agent({"h1", kBuild, ""}, written(one), report("a", 3), kNoTime).is_member);
}

TEST_CASE("the orders say that pool.db does not have the agent's devices until it has them") {
  Attendance one = member();
  const auto due = [&](bool is_recorded) { return decide(one, OrdersDue{is_recorded}, kNoTime); };
  CHECK(only<WriteOrders>(due(false))->orders.unrecorded);
  CHECK(due(false).empty());
  CHECK_FALSE(only<WriteOrders>(due(true))->orders.unrecorded);
  CHECK(due(true).empty());
}

TEST_CASE("an agent that wants to leave is told of once, and dismissed") {
  Attendance one = member();
  AgentReport leaving = report("a", 3);
  leaving.leaves = true;
  CHECK(only<FreeHost>(hear(one, leaving, 2s)) != nullptr);
  CHECK(hear(one, leaving, 2s).empty());
  CHECK(one.leaves);
  written(one);
  decide(one, DevicesReleased{}, kNoTime);
  CHECK(written(one)->dismissed);
}

}  // namespace
}  // namespace estrain::pool

#include "core/pool/hosts/attendance.h"

#include <doctest/doctest.h>

#include <csignal>

namespace estrain::pool {
namespace {

const Build kBuild{"1.0", "abc"};
constexpr int64_t kSecond = 1'000'000'000;

AgentReport report(const std::string& life, int64_t beat) {
  AgentReport one;
  one.build = kBuild;
  one.life = life;
  one.beat = beat;
  one.devices = {"cpu", "cuda:0"};
  return one;
}

Attendance stranger() { return {{"h1", kBuild, ""}, std::nullopt, std::nullopt, 0}; }

// One that has joined at second 1.
Attendance member() {
  Attendance one = stranger();
  one.hear(report("a", 1), 0);
  REQUIRE(one.hear(report("a", 2), kSecond).size() == 1);
  return one;
}

template <typename Event>
const Event* only(const std::vector<HostEvent>& events) {
  REQUIRE(events.size() == 1);
  return std::get_if<Event>(&events[0]);
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
  CHECK(one.hear(report("a", 1), 0).empty());
  CHECK(one.hear(report("a", 1), kSecond).empty());
  CHECK_FALSE(one.is_member());
  const auto events = one.hear(report("a", 2), 2 * kSecond);
  REQUIRE(only<HostJoined>(events) != nullptr);
  CHECK(only<HostJoined>(events)->devices == std::vector<std::string>{"h1/cpu", "h1/cuda:0"});
  const auto orders = one.changed_orders();
  REQUIRE(orders);
  CHECK(orders->to == "a");
  CHECK(orders->refusal == "");
  CHECK_FALSE(one.changed_orders());
  CHECK(one.hear(report("a", 3), 3 * kSecond).empty());
}

TEST_CASE("an agent of another build, or with a name that is taken, is told why it is not wanted, once") {
  Attendance one = stranger();
  AgentReport other = report("a", 1);
  other.build.build = "def";
  one.hear(other, 0);
  other.beat = 2;
  const auto events = one.hear(other, kSecond);
  REQUIRE(only<HostRefused>(events) != nullptr);
  CHECK(only<HostRefused>(events)->why == "it is of estrain 1.0 (build def), and the daemon of 1.0 (build abc)");
  CHECK(one.changed_orders()->refusal == only<HostRefused>(events)->why);
  other.beat = 3;
  CHECK(one.hear(other, 2 * kSecond).empty());
  CHECK_FALSE(one.is_member());
  Attendance own({"h0", kBuild, "that is the daemon's own host"}, std::nullopt, std::nullopt, 0);
  own.hear(report("a", 1), 0);
  CHECK(only<HostRefused>(own.hear(report("a", 2), 0)) != nullptr);
}

TEST_CASE("who is silent for 10 s is lost, and welcome again when it runs nothing more of what it had") {
  Attendance one = member();
  one.add(task("t"));
  AgentReport running = report("a", 3);
  running.tasks = {told("t")};
  CHECK(one.hear(running, 2 * kSecond).empty());
  CHECK(one.told_of("t"));
  CHECK(one.hear(running, 12 * kSecond).empty());
  REQUIRE(only<HostLost>(one.hear(running, 12 * kSecond + 1)) != nullptr);
  CHECK_FALSE(one.is_member());
  CHECK_FALSE(one.told_of("t"));
  CHECK(one.changed_orders()->tasks.empty());
  running.beat = 4;
  CHECK(one.hear(running, 20 * kSecond).empty());
  running.beat = 5;
  running.tasks[0].ended = true;
  CHECK(only<HostJoined>(one.hear(running, 21 * kSecond)) != nullptr);
}

TEST_CASE("an agent that ends, or whose place another one takes, is lost at once") {
  Attendance one = member();
  AgentReport gone = report("a", 3);
  gone.gone = true;
  CHECK(only<HostLost>(one.hear(gone, 2 * kSecond)) != nullptr);
  CHECK(one.hear(gone, 30 * kSecond).empty());
  Attendance other = member();
  CHECK(only<HostLost>(other.hear(report("b", 1), 2 * kSecond)) != nullptr);
  CHECK(only<HostJoined>(other.hear(report("b", 2), 3 * kSecond)) != nullptr);
}

TEST_CASE("the end of a task is told once, before what was seen after it") {
  Attendance one = member();
  one.add(task("launcher"));
  one.add(task("request", kRequest));
  AgentReport told_all = report("a", 3);
  told_all.tasks = {told("launcher"), told("request")};
  told_all.tasks[0].leads = true;
  told_all.tasks[0].looks = 1;
  told_all.tasks[0].look.emplace().step = 5;
  told_all.tasks[1].ended = true;
  told_all.tasks[1].code = 2;
  const auto events = one.hear(told_all, 2 * kSecond);
  REQUIRE(events.size() == 2);
  const auto& ended = std::get<TaskEnded>(events[0]);
  CHECK(ended.task.id == "request");
  CHECK(ended.code == 2);
  CHECK(std::get<TaskSeen>(events[1]).look.step == 5);
  CHECK(one.told_of("launcher")->leads);
  CHECK_FALSE(one.told_of("request"));
  CHECK(one.hear(told_all, 3 * kSecond).empty());
  REQUIRE(one.tasks().size() == 1);
  one.signal("launcher", SIGTERM);
  CHECK(one.changed_orders()->tasks[0].signal == SIGTERM);
}

TEST_CASE("a daemon takes up the agents of the one before; an agent that has changed meanwhile joins anew") {
  Attendance before = member();
  before.add(task("t"));
  const Orders orders = *before.changed_orders();
  Attendance same({"h1", kBuild, ""}, orders, report("a", 9), 0);
  CHECK(same.is_member());
  REQUIRE(same.tasks().size() == 1);
  CHECK(same.offered().size() == 2);
  same.add(task("u"));
  CHECK(same.changed_orders()->serial > orders.serial);
  Attendance other({"h1", kBuild, ""}, orders, report("b", 1), 0);
  CHECK_FALSE(other.is_member());
  CHECK(only<HostJoined>(other.hear(report("b", 2), kSecond)) != nullptr);
  CHECK(other.changed_orders()->serial > orders.serial);
  Attendance newer({"h1", {"2.0", "x"}, ""}, orders, report("a", 9), 0);  // of another build itself
  CHECK_FALSE(newer.is_member());
  CHECK(only<HostRefused>(newer.hear(report("a", 10), kSecond)) != nullptr);
}

TEST_CASE("an agent that wants to leave is told of once, and dismissed") {
  Attendance one = member();
  AgentReport leaving = report("a", 3);
  leaving.leaves = true;
  CHECK(only<HostLeaves>(one.hear(leaving, 2 * kSecond)) != nullptr);
  CHECK(one.hear(leaving, 2 * kSecond).empty());
  CHECK(one.leaves());
  one.changed_orders();
  one.dismiss();
  CHECK(one.changed_orders()->dismissed);
}

}  // namespace
}  // namespace estrain::pool

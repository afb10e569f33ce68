#include "core/pool/hosts/duties.h"

#include <doctest/doctest.h>

#include <csignal>

namespace estrain::pool {
namespace {

constexpr MonotonicTime kMinute{60s};

Task duty(const std::string& id, std::string_view kind) {
  return {.id = id, .job = 1, .kind = std::string(kind), .run = "run", .words = {}, .log = ""};
}

Orders orders(int64_t serial, std::vector<Task> tasks) {
  Orders one;
  one.to = "me";
  one.serial = serial;
  one.tasks = std::move(tasks);
  return one;
}

std::vector<std::string> started(const std::vector<Duty>& duties) {
  std::vector<std::string> ids;
  for (const Duty& one : duties) {
    if (const auto* start = std::get_if<StartTask>(&one.deed)) ids.push_back(start->task.id);
  }
  return ids;
}

std::vector<std::pair<std::string, int>> signals(const std::vector<Duty>& duties) {
  std::vector<std::pair<std::string, int>> sent;
  for (const Duty& one : duties) {
    if (const auto* signal = std::get_if<SignalTask>(&one.deed)) sent.emplace_back(signal->id, signal->number);
  }
  return sent;
}

using Sent = std::vector<std::pair<std::string, int>>;

TEST_CASE("a task is started once, however often its order is read") {
  Duties duties{.life = "me"};
  Orders first = orders(1, {duty("t", kLauncher)});
  CHECK(started(decide(duties, OrdersRead{first}, kNoTime)) == std::vector<std::string>{"t"});
  CHECK(decide(duties, OrdersRead{first}, monotonic_time(1)).empty());
  CHECK(duties.is_welcome);
  decide(duties, ProcessEnded{"t", false, 0}, kNoTime);
  CHECK(decide(duties, OrdersRead{first}, monotonic_time(2)).empty());
  CHECK(duties.known.at("t").report.ended);
  decide(duties, OrdersRead{orders(2, {})}, monotonic_time(3));
  CHECK(duties.known.empty());
  CHECK(decide(duties, OrdersRead{first}, monotonic_time(4)).empty());  // older than what was read
}

TEST_CASE("orders for another agent count for nothing, and a refusal is no welcome") {
  Duties duties{.life = "me"};
  Orders other = orders(5, {duty("t", kLauncher)});
  other.to = "another";
  CHECK(decide(duties, OrdersRead{other}, kNoTime).empty());
  CHECK_FALSE(duties.is_welcome);
  Orders refusal = orders(6, {});
  refusal.refusal = "wrong build";
  decide(duties, OrdersRead{refusal}, kNoTime);
  CHECK_FALSE(duties.is_welcome);
  CHECK(duties.refusal == "wrong build");
}

TEST_CASE("signals are passed on once; a task that is not ordered any more is ended, at last by force") {
  Duties duties{.life = "me"};
  Orders all = orders(1, {duty("l", kLauncher), duty("a", kRunAgent)});
  decide(duties, OrdersRead{all}, monotonic_time(1));
  all.serial = 2;
  all.tasks[0].signal = SIGTERM;
  CHECK(signals(decide(duties, OrdersRead{all}, monotonic_time(1))) == Sent{{"l", SIGTERM}});
  CHECK(decide(duties, OrdersRead{all}, monotonic_time(1)).empty());
  const Orders fewer = orders(3, {all.tasks[0]});
  CHECK(signals(decide(duties, OrdersRead{fewer}, monotonic_time(1))) == Sent{{"a", SIGTERM}});
  CHECK(decide(duties, OrdersRead{fewer}, kMinute + 1ns).empty());
  CHECK(signals(decide(duties, OrdersRead{fewer}, kMinute + 2ns)) == Sent{{"a", SIGKILL}});
}

TEST_CASE("an agent that winds up stops what leads a job first, and then the rest") {
  Duties duties{.life = "me"};
  decide(duties, OrdersRead{orders(1, {duty("l", kLauncher), duty("a", kRunAgent), duty("heir", kRunAgent)})}, kNoTime);
  decide(duties, TaskLookedAt{"heir", true, true}, kNoTime);  // it has taken over
  CHECK(signals(decide(duties, NobodyOrders{}, monotonic_time(1))) == Sent{{"heir", SIGTERM}, {"l", SIGTERM}});
  decide(duties, ProcessEnded{"l", false, 75}, kNoTime);
  CHECK(signals(decide(duties, NobodyOrders{}, monotonic_time(2))).empty());
  decide(duties, ProcessEnded{"heir", false, 75}, kNoTime);
  CHECK(duties.anything_runs());
  CHECK(signals(decide(duties, NobodyOrders{}, monotonic_time(3))) == Sent{{"a", SIGTERM}});
  decide(duties, ProcessEnded{"a", true, SIGTERM}, kNoTime);
  CHECK_FALSE(duties.anything_runs());
}

TEST_CASE("an agent reports at once what it learns of a task, and remembers that the task leads until its end") {
  Duties duties{.life = "me"};
  decide(duties, OrdersRead{orders(1, {duty("a", kRunAgent)})}, kNoTime);
  const auto reports = [&](const TaskLookedAt& seen) { return decide(duties, seen, kNoTime).size(); };
  CHECK(reports({"a", false, false}) == 0);
  CHECK(reports({"a", false, true}) == 1);
  CHECK(reports({"a", true, true}) == 0);
  CHECK(reports({"a", false, true, JobLook()}) == 1);
  const TaskReport& report = duties.known.at("a").report;
  CHECK(report.leads);
  CHECK(report.listens);
  CHECK(report.looks == 1);
  CHECK(decide(duties, ProcessEnded{"a", true, SIGKILL}, kNoTime).size() == 1);
  CHECK_FALSE(report.leads);
  CHECK(decide(duties, ProcessEnded{"unknown"}, kNoTime).empty());
}

}  // namespace
}  // namespace estrain::pool

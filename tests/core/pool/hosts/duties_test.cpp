#include "core/pool/hosts/duties.h"

#include <doctest/doctest.h>

#include <csignal>

namespace estrain::pool {
namespace {

constexpr int64_t kMinute = 60'000'000'000;

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
    if (const auto* start = std::get_if<StartTask>(&one)) ids.push_back(start->task.id);
  }
  return ids;
}

std::vector<std::pair<std::string, int>> signals(const std::vector<Duty>& duties) {
  std::vector<std::pair<std::string, int>> sent;
  for (const Duty& one : duties) {
    if (const auto* signal = std::get_if<SignalTask>(&one)) sent.emplace_back(signal->id, signal->number);
  }
  return sent;
}

using Sent = std::vector<std::pair<std::string, int>>;

TEST_CASE("a task is started once, however often its order is read") {
  Duties duties("me");
  Orders first = orders(1, {duty("t", kLauncher)});
  CHECK(started(duties.take(first, 0)) == std::vector<std::string>{"t"});
  CHECK(duties.take(first, 1).empty());
  CHECK(duties.is_welcome());
  duties.ended("t", false, 0);
  CHECK(duties.take(first, 2).empty());
  CHECK(duties.known().at("t").report.ended);
  duties.take(orders(2, {}), 3);
  CHECK(duties.known().empty());
  CHECK(duties.take(first, 4).empty());  // older than what was read
}

TEST_CASE("orders for another agent count for nothing, and a refusal is no welcome") {
  Duties duties("me");
  Orders other = orders(5, {duty("t", kLauncher)});
  other.to = "another";
  CHECK(duties.take(other, 0).empty());
  CHECK_FALSE(duties.is_welcome());
  Orders refusal = orders(6, {});
  refusal.refusal = "wrong build";
  duties.take(refusal, 0);
  CHECK_FALSE(duties.is_welcome());
  CHECK(duties.refusal() == "wrong build");
}

TEST_CASE("signals are passed on once; a task that is not ordered any more is ended, at last by force") {
  Duties duties("me");
  Orders all = orders(1, {duty("l", kLauncher), duty("a", kRunAgent)});
  duties.take(all, 1);
  all.serial = 2;
  all.tasks[0].signal = SIGTERM;
  CHECK(signals(duties.take(all, 1)) == Sent{{"l", SIGTERM}});
  CHECK(duties.take(all, 1).empty());
  const Orders fewer = orders(3, {all.tasks[0]});
  CHECK(signals(duties.take(fewer, 1)) == Sent{{"a", SIGTERM}});
  CHECK(duties.take(fewer, kMinute + 1).empty());
  CHECK(signals(duties.take(fewer, kMinute + 2)) == Sent{{"a", SIGKILL}});
}

TEST_CASE("an agent that winds up stops what leads a job first, and then the rest") {
  Duties duties("me");
  duties.take(orders(1, {duty("l", kLauncher), duty("a", kRunAgent), duty("heir", kRunAgent)}), 0);
  duties.known().at("heir").report.leads = true;  // it has taken over
  CHECK(signals(duties.wind_up(1)) == Sent{{"heir", SIGTERM}, {"l", SIGTERM}});
  duties.ended("l", false, 75);
  CHECK(signals(duties.wind_up(2)).empty());
  duties.ended("heir", false, 75);
  CHECK(duties.anything_runs());
  CHECK(signals(duties.wind_up(3)) == Sent{{"a", SIGTERM}});
  duties.ended("a", true, SIGTERM);
  CHECK_FALSE(duties.anything_runs());
}

}  // namespace
}  // namespace estrain::pool

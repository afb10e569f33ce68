#include "core/pool/daemon/host_news.h"

#include <doctest/doctest.h>

#include "tests/core/pool/daemon/resting_pool.h"

namespace estrain::pool {
namespace {

struct Hosts : RestingPool {
  using RestingPool::RestingPool;
  JobCommands commands{pool};
  JobNews news{pool, commands};
  Chronicle chronicle{pool};
  HostNews hosts{pool, commands, news, chronicle, {}};

  bool is_dismissed() {
    pool.agents.flush();
    return Meeting(pool.directory.path()).orders("nodeB")->dismissed;
  }
  std::vector<std::string> devices() const {
    std::vector<std::string> names;
    for (const dispatch::Slot& slot : pool.state().slots) names.push_back(slot.name);
    return names;
  }
};

TaskReport report_of(const std::string& id) {
  TaskReport one;
  one.id = id;
  one.job = 1;
  return one;
}

TEST_CASE("a pool that begins loses the devices of hosts whose agents are gone, and only those") {
  Hosts at(state_with_job(Phase::waiting, {"cpu", "nodeB/cpu", "nodeC/cpu", "nodeC/cpu"}));
  at.hosts.take_up();
  CHECK(at.devices() == std::vector<std::string>{"cpu", "nodeB/cpu"});
}

TEST_CASE("a job that was alone on a lost host goes on from its checkpoint, without a failure") {
  Hosts at(state_with_job(Phase::running, {"nodeC/cpu"}, "nodeC"));
  at.pool.launchers[1] = {.is_child = false, .host = "nodeC", .task = "t1"};
  at.pool.asked[1] = {.words = {}, .is_sent = true};
  at.hosts.take_up();
  CHECK(at.job().phase == Phase::waiting);
  CHECK(at.job().failures == 0);
  CHECK(at.pool.launchers.empty());
  CHECK(at.pool.asked.empty());
}

TEST_CASE("a job that was led from a lost host waits for another of its hosts to lead it") {
  Hosts at(state_with_job(Phase::running, {"nodeC/cpu", "nodeB/cpu"}, "nodeC"));
  at.pool.launchers[1] = {.is_child = false, .host = "nodeC", .task = "t1"};
  at.hosts.take_up();
  CHECK(at.job().is_leaderless);
  CHECK(at.pool.orphans.contain(1));
  CHECK(at.devices() == std::vector<std::string>{"nodeB/cpu"});
}

TEST_CASE("an agent that leaves is dismissed once its devices are free, not before") {
  Hosts busy(state_with_job(Phase::running, {"nodeB/cpu"}, "nodeB"), {.leaves = true});
  busy.launch_on_b();
  busy.hosts.tend();
  busy.hosts.tend();
  CHECK(busy.pool.state().slots.at(0).state == dispatch::Slot::State::leaving);
  CHECK_FALSE(busy.is_dismissed());
  Hosts idle(state_with_job(Phase::done, {"nodeB/cpu"}), {.leaves = true});
  idle.hosts.tend();
  idle.pool.dispatcher->tick(wall_seconds());
  idle.hosts.tend();
  CHECK(idle.devices().empty());
  CHECK(idle.is_dismissed());
}

TEST_CASE("a launcher's end on another host is its job's, and the end of an older launcher is not") {
  for (const bool is_current : {true, false}) {
    TaskReport ended = report_of("t1");
    ended.ended = true;
    ended.code = 75;
    Hosts at(state_with_job(Phase::running, {"nodeB/cpu"}, "nodeB"),
             {.tasks = {RestingPool::task_of(kLauncher, "t1")}, .reports = {ended}});
    at.pool.launchers[1] = {.is_child = false, .host = "nodeB", .task = is_current ? "t1" : "t2"};
    at.hosts.tend();
    CHECK(at.job().phase == (is_current ? Phase::waiting : Phase::running));
    CHECK(at.pool.launchers.contains(1) != is_current);
  }
}

TEST_CASE("an agent of a run that leads it is its launcher from then on; one that only follows is not") {
  for (const bool leads : {true, false}) {
    TaskReport seen = report_of("t1");
    seen.looks = 1;
    seen.leads = leads;
    JobLook& look = seen.look.emplace();
    look.state = "training";
    look.step = 7;
    look.held = std::vector<std::string>{"cpu"};
    dispatch::State state = state_with_job(Phase::running, {"nodeB/cpu"}, "nodeC");
    state.jobs[1].is_leaderless = true;
    Hosts at(std::move(state), {.tasks = {RestingPool::task_of(kRunAgent, "t1")}, .reports = {seen}});
    at.pool.orphans.add(1, {dispatch::Ended::How::vanished, "gone"}, wall_seconds());
    at.hosts.tend();
    CHECK(at.job().home == (leads ? "nodeB" : "nodeC"));
    CHECK(at.job().is_leaderless != leads);
    CHECK(at.pool.launchers.contains(1) == leads);
    CHECK(at.pool.orphans.contain(1) != leads);
  }
}

TEST_CASE("an orphan that no agent can go on with has ended as its launcher did") {
  dispatch::State state = state_with_job(Phase::running, {"nodeB/cpu"}, "nodeC");
  state.jobs[1].is_leaderless = true;
  Hosts at(std::move(state));
  at.pool.orphans.add(1, {dispatch::Ended::How::failed, "its data is gone"}, wall_seconds());
  at.hosts.tend();
  CHECK(at.job().phase == Phase::failed);
  CHECK(at.job().reason == "its data is gone");
}

TEST_CASE("a launcher that leads no job any more is ended") {
  Hosts at(state_with_job(Phase::done, {"nodeB/cpu"}), {.tasks = {RestingPool::task_of(kLauncher, "t1")}});
  at.hosts.tend();
  CHECK(at.tasks(kLauncher).empty());
}

}  // namespace
}  // namespace estrain::pool

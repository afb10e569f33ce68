#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "core/pool/daemon/daemon.h"
#include "tests/core/pool/daemon/resting_pool.h"

namespace estrain::pool {
namespace {

struct Hosts : RestingPool {
  using RestingPool::RestingPool;
  JobNews news{dispatcher, hosts, processes};
  HostNews host_news{dispatcher, hosts, news};

  bool is_dismissed() {
    hosts.agents.flush(true);
    return MeetingFolder(hosts.directory.path()).orders("nodeB")->dismissed;
  }
  std::vector<std::string> devices() const {
    std::vector<std::string> names;
    for (const dispatch::Slot& slot : dispatcher.state().slots) names.push_back(slot.name);
    return names;
  }
  // An agent with a CPU and so many bytes shows life on a host that has not been in the pool.
  void join(const std::string& host, double memory) {
    AgentReport report{.build = Build::own(), .life = host, .devices = {"cpu"}, .tasks = {}, .memory = memory};
    report.rack = "rack of " + host;
    for (report.beat = 1; report.beat <= 2; ++report.beat) {
      MeetingFolder(hosts.directory.path()).write(host, report);
      host_news.tend();
      std::this_thread::sleep_for(std::chrono::milliseconds(120));  // the daemon looks at agents ten times a second
    }
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
  at.host_news.take_up();
  CHECK(at.devices() == std::vector<std::string>{"cpu", "nodeB/cpu"});
}

TEST_CASE(
    "a pool that begins while an agent's file cannot be read keeps the agent with its tasks, and hears it later") {
  const ScratchFolder folder;
  prepare_agent(folder.path(), {.tasks = {RestingPool::task_of(kLauncher, "t1")}});
  replace_bytes(folder / "hosts/nodeB/agent.json", "");
  Agents agents(folder.path(), "nodeA");
  CHECK(agents.is_member("nodeB"));
  CHECK(agents.tasks_of(1).size() == 1);
  write_report(folder.path(), {}, 2);
  CHECK(agents.look().empty());
  CHECK(agents.offered("nodeB") == std::vector<std::string>{"nodeB/cpu", "nodeB/cpu"});
}

TEST_CASE("a host that joins gets a waiting job if its memory holds the job, and only then") {
  constexpr double kGiB = 1 << 30;
  for (const double gib : {4.0, 16.0}) {
    dispatch::State state = state_with_job(Phase::waiting, {"cpu"});
    state.jobs[1].memory.needs = {.fixed = 1 * kGiB, .worker = 8 * kGiB};
    state.memory[""] = 4 * kGiB;
    Hosts at(std::move(state));
    at.dispatcher.tell(dispatch::TimePassed{});
    REQUIRE(at.job().phase == Phase::waiting);
    at.join("nodeC", gib * kGiB);
    CHECK(at.devices() == std::vector<std::string>{"cpu", "nodeC/cpu"});
    CHECK(at.dispatcher.state().racks == std::map<std::string, std::string>{{"nodeC", "rack of nodeC"}});
    CHECK(at.job().phase == (gib > 8 ? Phase::starting : Phase::waiting));
  }
}

TEST_CASE("a job that was alone on a lost host goes on from its checkpoint, without a failure") {
  Hosts at(state_with_job(Phase::running, {"nodeC/cpu"}, "nodeC"));
  at.processes.launchers[1] = {.is_child = false, .host = "nodeC", .task = "t1"};
  at.processes.commands[1] = {.words = {}, .is_sent = true};
  at.host_news.take_up();
  CHECK(at.job().phase == Phase::waiting);
  CHECK(at.job().failures == 0);
  CHECK(at.processes.launchers.empty());
  CHECK(at.processes.commands.empty());
}

TEST_CASE("a job that was led from a lost host waits for another of its hosts to lead it") {
  Hosts at(state_with_job(Phase::running, {"nodeC/cpu", "nodeB/cpu"}, "nodeC"));
  at.processes.launchers[1] = {.is_child = false, .host = "nodeC", .task = "t1"};
  at.host_news.take_up();
  CHECK(at.job().is_leaderless);
  CHECK(at.processes.orphans.contain(1));
  CHECK(at.devices() == std::vector<std::string>{"nodeB/cpu"});
}

TEST_CASE(
    "a pool that begins has the devices of an agent whose admission could not be written down, not removed ones") {
  for (const bool unrecorded : {true, false}) {
    Hosts at(state_with_job(Phase::waiting, {"cpu"}), {.unrecorded = unrecorded});
    at.host_news.take_up();
    CHECK(at.devices() ==
          (unrecorded ? std::vector<std::string>{"cpu", "nodeB/cpu", "nodeB/cpu"} : std::vector<std::string>{"cpu"}));
  }
}

TEST_CASE("an agent that leaves is dismissed once its devices are free, not before") {
  Hosts busy(state_with_job(Phase::running, {"nodeB/cpu"}, "nodeB"), {.leaves = true});
  busy.launch_on_b();
  busy.host_news.tend();
  busy.host_news.tend();
  CHECK(busy.dispatcher.state().slots.at(0).state == dispatch::Slot::State::leaving);
  CHECK_FALSE(busy.is_dismissed());
  Hosts idle(state_with_job(Phase::done, {"nodeB/cpu"}), {.leaves = true});
  idle.host_news.tend();
  idle.dispatcher.tell(dispatch::TimePassed{});
  idle.host_news.tend();
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
    at.processes.launchers[1] = {.is_child = false, .host = "nodeB", .task = is_current ? "t1" : "t2"};
    at.host_news.tend();
    CHECK(at.job().phase == (is_current ? Phase::waiting : Phase::running));
    CHECK(at.processes.launchers.contains(1) != is_current);
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
    at.processes.orphans.add(1, {dispatch::Ended::How::vanished, "gone"}, seconds(monotonic_ns()));
    at.host_news.tend();
    CHECK(at.job().home == (leads ? "nodeB" : "nodeC"));
    CHECK(at.job().is_leaderless != leads);
    CHECK(at.processes.launchers.contains(1) == leads);
    CHECK(at.processes.orphans.contain(1) != leads);
  }
}

TEST_CASE("an agent of a run takes the place of a launcher on the daemon's host only once the launcher has ended") {
  TaskReport seen = report_of("t1");
  seen.looks = 1;
  seen.leads = true;
  JobLook& look = seen.look.emplace();
  look.state = "training";
  look.step = 7;
  look.held = std::vector<std::string>{"cpu"};
  const AgentOfB agent{.tasks = {RestingPool::task_of(kRunAgent, "t1")}, .reports = {seen}};
  for (const bool has_ended : {false, true}) {
    Hosts at(state_with_job(Phase::running, {"cpu", "nodeB/cpu"}), agent);
    ChildOptions sleeper;
    sleeper.arguments = {"/bin/sleep", "60"};
    ChildProcess launcher = ChildProcess::start(sleeper);
    const pid_t pid = launcher.pid();
    at.processes.launchers[1] = {.process = std::move(launcher)};
    if (has_ended) {
      at.processes.launchers[1].process.signal(SIGKILL);
      at.processes.launchers[1].process.wait();
    }
    at.host_news.tend();
    CHECK(at.job().home == (has_ended ? "nodeB" : ""));
    CHECK(at.processes.launchers.at(1).process.running() != has_ended);
    if (!has_ended) {
      CHECK(at.processes.launchers.at(1).process.pid() == pid);
      at.processes.launchers[1].process.signal(SIGKILL);
      at.processes.launchers[1].process.wait();
    }
  }
}

TEST_CASE("an orphan that no agent can go on with has ended as its launcher did") {
  dispatch::State state = state_with_job(Phase::running, {"nodeB/cpu"}, "nodeC");
  state.jobs[1].is_leaderless = true;
  Hosts at(std::move(state));
  at.processes.orphans.add(1, {dispatch::Ended::How::failed, "its data is gone"}, seconds(monotonic_ns()));
  at.host_news.tend();
  CHECK(at.job().phase == Phase::failed);
  CHECK(at.job().reason == "its data is gone");
}

}  // namespace
}  // namespace estrain::pool

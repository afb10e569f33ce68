#include "core/pool/daemon/job_commands.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <thread>

#include "core/base/clock.h"
#include "core/run/launch/control/shared_mark.h"
#include "tests/core/pool/daemon/resting_pool.h"

namespace estrain::pool {
namespace {

struct Commands : RestingPool {
  using RestingPool::RestingPool;
  JobCommands commands{dispatcher, hosts, processes};

  // The words of the request that nodeB's agent has; empty: it has none.
  std::vector<std::string> asked_words() const {
    const auto requests = tasks(kRequest);
    return requests.size() == 1 ? requests[0].words : std::vector<std::string>{};
  }
};

using Words = std::vector<std::string>;

TEST_CASE("a job starts from its spec the first time; later it resumes its run, if that is one of its spec") {
  for (const bool has_run : {false, true}) {
    Commands at(state_with_job(Phase::starting, {"nodeB/cpu"}, "nodeB"));
    if (has_run) at.run_file("job.toml", "");
    at.commands.carry_out(dispatch::StartJob{1, {"nodeB/cpu"}, "nodeB"});
    const auto launchers = at.tasks(kLauncher);
    REQUIRE(launchers.size() == 1);
    Words words = {"train", "--own-session", at.hosts.directory.spec(1)};
    if (has_run) words.emplace_back("--resume");
    const Words others = {"--run",         at.hosts.directory.run(1),         "--devices", "nodeB/cpu",
                          "--shared-mark", at.hosts.directory.shared_mark(1), "--name",    "nodeB"};
    words.insert(words.end(), others.begin(), others.end());
    CHECK(launchers[0].words == words);
    REQUIRE(at.processes.launchers.contains(1));
    CHECK(at.processes.launchers[1].task == launchers[0].id);
    CHECK(at.processes.launchers[1].host == "nodeB");
    CHECK(at.processes.commands.empty());
  }
}

TEST_CASE("a guest's launcher is told to leave processors to others") {
  dispatch::State state = state_with_job(Phase::starting, {"nodeB/cpu"}, "nodeB");
  state.jobs[1].request.background = true;
  Commands at(std::move(state));
  at.commands.carry_out(dispatch::StartJob{1, {"nodeB/cpu"}, "nodeB"});
  const auto launchers = at.tasks(kLauncher);
  REQUIRE(launchers.size() == 1);
  CHECK(std::ranges::count(launchers[0].words, "--background") == 1);
}

TEST_CASE("a run is told when a guest comes to its devices and goes, also by a daemon that knows nothing of before") {
  dispatch::State state = state_with_job(Phase::running, {"cpu"});
  state.jobs[2].id = state.last_job = 2;
  state.jobs[2].phase = Phase::stopping;
  state.jobs[2].request.background = true;
  Commands at(state);
  const std::string mark = at.hosts.directory.shared_mark(1);
  at.commands.tend();
  CHECK(launch::shared_until(mark) == 0);
  launch::mark_shared(mark, true);
  CHECK(std::isinf(launch::shared_until(mark)));
  JobCommands(at.dispatcher, at.hosts, at.processes).tend();
  CHECK(launch::shared_until(mark) == doctest::Approx(wall_seconds()).epsilon(1e-6));
  state.slots[0].guest = 2;
  Commands beside(state);
  beside.commands.tend();
  CHECK(std::isinf(launch::shared_until(beside.hosts.directory.shared_mark(1))));
}

TEST_CASE("a job over several hosts starts once the agents of its run listen, and is tried again if they never do") {
  const double patience = 60;
  Commands at(state_with_job(Phase::starting, {"nodeB/cpu", "nodeC/cpu"}, "nodeB"));
  at.commands.carry_out(dispatch::StartJob{1, {"nodeB/cpu", "nodeC/cpu"}, "nodeB"});
  CHECK(at.processes.commands.at(1).since <= seconds(monotonic_ns()));
  at.processes.commands.at(1).since -= patience - 10;
  at.commands.tend();
  CHECK(at.job().phase == Phase::starting);
  CHECK(at.tasks(kLauncher).empty());
  at.processes.commands.at(1).since -= 11;
  at.commands.tend();
  CHECK(at.tasks(kLauncher).empty());
  CHECK(at.processes.commands.empty());
  CHECK(at.job().phase == Phase::waiting);
  CHECK(at.job().failures == 1);
  CHECK(at.job().not_before > wall_seconds() + 1);
}

TEST_CASE("a job that weighs offers is offered devices; another one is resized") {
  for (const bool weighs : {false, true}) {
    dispatch::State state = state_with_job(Phase::changing, {"nodeB/cpu", "nodeB/cpu"}, "nodeB");
    state.jobs[1].request.weighs_offers = weighs;
    Commands at(std::move(state));
    at.launch_on_b();
    at.commands.carry_out(dispatch::GrowJob{1, {"nodeB/cpu"}, {"nodeB/cpu", "nodeB/cpu"}});
    const std::string run = at.hosts.directory.run(1);
    CHECK(at.asked_words() == (weighs ? Words{"offer", run, "nodeB/cpu", "--json"}
                                      : Words{"resize", run, "--devices", "nodeB/cpu,nodeB/cpu", "--json"}));
    CHECK(at.processes.commands.at(1).is_sent);
  }
}

TEST_CASE("a job that gives devices back is told within how many seconds") {
  Commands at(state_with_job(Phase::changing, {"nodeB/cpu", "nodeB/cpu"}, "nodeB"));
  at.launch_on_b();
  at.commands.carry_out(dispatch::ShrinkJob{1, {"nodeB/cpu"}, 1.25});
  CHECK(at.asked_words() == Words{"reclaim", at.hosts.directory.run(1), "nodeB/cpu", "--within", "1.250", "--json"});
}

TEST_CASE("a request is sent once, however often waiting ones are looked at") {
  Commands at(state_with_job(Phase::changing, {"nodeB/cpu", "nodeB/cpu"}, "nodeB"));
  at.launch_on_b();
  at.commands.carry_out(dispatch::ShrinkJob{1, {"nodeB/cpu"}, 1});
  at.commands.tend();
  at.commands.tend();
  CHECK(at.tasks(kRequest).size() == 1);
}

TEST_CASE("a command that another takes the place of is reaped once it has ended") {
  Commands at(state_with_job(Phase::changing, {"nodeB/cpu", "nodeB/cpu"}, "nodeB"));
  at.launch_on_b();
  ChildOptions sleeper;
  sleeper.arguments = {"/bin/sleep", "60"};
  at.processes.commands[1] = {.words = {}, .is_sent = true, .process = ChildProcess::start(sleeper)};
  const pid_t before = at.processes.commands[1].process.pid();
  at.commands.carry_out(dispatch::ShrinkJob{1, {"nodeB/cpu"}, 1});
  CHECK_FALSE(at.asked_words().empty());
  at.commands.tend();
  CHECK(::kill(before, SIGKILL) == 0);
  for (int i = 0; i < 1000 && ::kill(before, 0) == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    at.commands.tend();
  }
  CHECK(::kill(before, 0) != 0);
}

TEST_CASE("a job that is to stop before its launcher was started has stopped, and its start is given up") {
  Commands at(state_with_job(Phase::stopping, {"nodeB/cpu", "nodeC/cpu"}, "nodeB"));
  at.processes.commands[1] = {.what = JobCommand::What::launch, .words = {"train"}};
  at.commands.carry_out(dispatch::StopJob{1, {"nodeB/cpu", "nodeC/cpu"}, 1});
  CHECK(at.processes.commands.empty());
  CHECK(at.job().phase == Phase::waiting);
  CHECK(at.job().failures == 0);
}

TEST_CASE("a launcher that trains is asked to stop; one that does not yet is told by a signal") {
  for (const bool trains : {false, true}) {
    Commands at(state_with_job(Phase::stopping, {"nodeB/cpu"}, "nodeB"));
    at.launch_on_b();
    at.processes.launchers[1].trains = trains;
    at.commands.carry_out(dispatch::StopJob{1, {"nodeB/cpu"}, 2});
    CHECK(at.tasks(kLauncher)[0].signal == (trains ? 0 : SIGTERM));
    CHECK(at.asked_words().empty() != trains);
  }
}

TEST_CASE("a stop waits for no agents of the run") {
  Commands at(state_with_job(Phase::stopping, {"nodeB/cpu", "nodeC/cpu"}, "nodeB"));
  at.launch_on_b();
  at.processes.launchers[1].trains = true;
  at.commands.carry_out(dispatch::StopJob{1, {"nodeB/cpu", "nodeC/cpu"}, 2});
  CHECK_FALSE(at.asked_words().empty());
}

TEST_CASE("a job that is killed is killed on all its hosts, so that none goes on with it") {
  Commands at(state_with_job(Phase::running, {"nodeB/cpu"}, "nodeB"),
              {.tasks = {RestingPool::task_of(kRunAgent, "t1")}});
  at.launch_on_b();
  at.commands.carry_out(dispatch::KillJob{1});
  CHECK(at.tasks(kLauncher)[0].signal == SIGKILL);
  CHECK(at.tasks(kRunAgent)[0].signal == SIGKILL);
  CHECK(at.processes.launchers[1].was_killed);
}

TEST_CASE("a launcher that leads no job any more is ended") {
  Commands at(state_with_job(Phase::done, {"nodeB/cpu"}), {.tasks = {RestingPool::task_of(kLauncher, "t1")}});
  at.commands.tend();
  CHECK(at.tasks(kLauncher).empty());
}

}  // namespace
}  // namespace estrain::pool

#include "core/pool/daemon/job_news.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "tests/core/pool/daemon/resting_pool.h"

namespace estrain::pool {
namespace {

struct News : RestingPool {
  using RestingPool::RestingPool;
  JobNews news{dispatcher, hosts, processes};
};

// Job 1 changes its batch.
dispatch::State state_with_batch_wanted() {
  dispatch::State state = state_with_job(Phase::changing, {"cpu"});
  state.jobs[1].request.batch = {{32, 1, 512}, 3};
  state.jobs[1].batch.wanted = 64;
  return state;
}

JobLook look(const std::string& state, const std::vector<std::string>& held) {
  JobLook one;
  one.state = state;
  one.step = 5;
  one.total_steps = 100;
  one.held = held;
  one.devices_at_work = std::ssize(held);
  return one;
}

// This job's launcher never answers: a look at it puts off the next one.
TEST_CASE("jobs are looked at once a second, and before each decision at the end of a round") {
  News at(state_with_job(Phase::running, {"cpu"}));
  const auto is_looked_at = [&](double after) {
    at.processes.launchers[1] = {.looked = seconds(monotonic_ns()) - after};
    const double before = at.processes.launchers[1].looked;
    at.news.look_at_jobs();
    return at.processes.launchers[1].looked != before;
  };
  CHECK(is_looked_at(0.25));         // nothing has been decided yet
  CHECK_FALSE(is_looked_at(-0.25));  // it did not answer lately
  at.dispatcher.tell(dispatch::TimePassed{});
  CHECK_FALSE(is_looked_at(0.25));
  CHECK(is_looked_at(1.25));
}

TEST_CASE("a job that starts runs once its launcher is seen to train") {
  News at(state_with_job(Phase::starting, {"cpu"}));
  at.processes.launchers[1] = {};
  at.news.on_look(1, look("starting", {"cpu"}));
  CHECK(at.job().phase == Phase::starting);
  at.news.on_look(1, JobLook{.state = "training", .step = {}, .held = {}, .batch = {}});
  CHECK(at.job().phase == Phase::starting);
  at.news.on_look(1, look("training", {"cpu"}));
  CHECK(at.job().phase == Phase::running);
  CHECK(at.job().step == 5);
}

TEST_CASE("a look tells the pool how long a mini-batch takes on each type of device") {
  News at(state_with_job(Phase::running, {"cpu:avx2", "cpu:sse"}));
  at.processes.launchers[1] = {};
  JobLook one = look("training", {"cpu:avx2", "cpu:sse"});
  one.mini_batches = {{"cpu:avx2", 0.1}, {"cpu:sse", 0.4}};
  one.step_seconds = 0.5;
  one.links = {{"nodeB", 1e9, 0.001}};
  at.news.on_look(1, one);
  CHECK(at.dispatcher.state().links.at("nodeB").bytes_per_second == 1e9);
  one.links[0].bytes_per_second = 1.05e9;  // about as known
  at.news.on_look(1, one);
  CHECK(at.dispatcher.state().links.at("nodeB").bytes_per_second == 1e9);
  one.links[0].bytes_per_second = 2e9;
  at.news.on_look(1, one);
  CHECK(at.dispatcher.state().links.at("nodeB").bytes_per_second == 2e9);
  CHECK(at.job().speeds.mini_batch("cpu:sse") == doctest::Approx(0.4));
  CHECK(at.job().speeds.measured().contains({"cpu:avx2*1+cpu:sse*1", 2, 1}));
}

TEST_CASE("a job that has lost a device holds what its run says, but not while a request is under way") {
  News at(state_with_job(Phase::running, {"cpu", "cpu"}));
  at.processes.launchers[1] = {};
  at.processes.commands[1] = {};
  at.news.on_look(1, look("training", {"cpu"}));
  CHECK(at.job().targeted() == 2);
  at.processes.commands.clear();
  at.news.on_look(1, look("training", {"cpu"}));
  CHECK(at.job().targeted() == 1);
  CHECK(at.job().phase == Phase::running);
}

TEST_CASE("where the answer to a request is lost, a later look tells, with what the change has cost, once") {
  News at(state_with_job(Phase::changing, {"cpu", "cpu"}));
  at.processes.launchers[1] = {.lost = 1.5};
  at.processes.commands[1] = {};
  at.news.on_look(1, look("training", {"cpu", "cpu"}));
  CHECK(at.job().phase == Phase::changing);
  at.processes.commands.clear();
  at.news.on_look(1, look("training", {"cpu", "cpu"}));
  CHECK(at.job().phase == Phase::running);
  CHECK(at.job().lost == 1.5);
  CHECK(at.processes.launchers[1].lost == 0);
}

TEST_CASE("another batch is in force when the new launch trains") {
  News at(state_with_batch_wanted());
  at.processes.launchers[1] = {};
  at.news.on_look(1, look("starting", {"cpu"}));
  CHECK(at.job().phase == Phase::changing);
  at.news.on_look(1, look("training", {"cpu"}));
  CHECK(at.job().phase == Phase::running);
}

TEST_CASE("how a launcher ended decides what becomes of its job") {
  const auto phase_after = [](const ChildEnd& end) {
    News at(state_with_job(Phase::running, {"cpu"}));
    at.processes.launchers[1] = {};
    at.news.on_launcher_ended(1, end);
    CHECK(at.processes.launchers.empty());
    CHECK(at.dispatcher.state().slots[0].holder == 0);
    return at.job().phase;
  };
  CHECK(phase_after({false, 0}) == Phase::done);
  CHECK(phase_after({false, 75}) == Phase::waiting);
  CHECK(phase_after({true, SIGKILL}) == Phase::waiting);
  CHECK(phase_after({false, exit_code(Fault::usage)}) == Phase::failed);
}

TEST_CASE("a launcher that is told to stop before it can has stopped, and has met no fault") {
  const auto failures_after = [](Phase phase, int number) {
    News at(state_with_job(phase, {"cpu"}));
    at.processes.launchers[1] = {};
    at.news.on_launcher_ended(1, ChildEnd{true, number});
    CHECK(at.job().phase == Phase::waiting);
    return at.job().failures;
  };
  CHECK(failures_after(Phase::stopping, SIGTERM) == 0);
  CHECK(failures_after(Phase::stopping, SIGSEGV) == 1);
  CHECK(failures_after(Phase::running, SIGTERM) == 1);
}

TEST_CASE("with a launcher goes a request that was not sent; one that was sent is still answered") {
  for (const bool is_sent : {false, true}) {
    News at(state_with_job(Phase::running, {"cpu"}));
    at.processes.launchers[1] = {};
    at.processes.commands[1] = {.words = {}, .is_sent = is_sent};
    at.news.on_launcher_ended(1, ChildEnd{false, 75});
    CHECK(at.processes.commands.contains(1) == is_sent);
  }
}

TEST_CASE("a lost launcher leaves its job to the agents that have its state, unless the job was to end or is over") {
  const auto is_orphan_after = [](Phase phase, const ChildEnd& end, bool was_killed, bool has_heirs) {
    const std::vector<Task> heirs = {RestingPool::task_of(kRunAgent, "t1")};
    News at(state_with_job(phase, {"cpu", "nodeB/cpu"}), {.tasks = has_heirs ? heirs : std::vector<Task>{}});
    at.processes.launchers[1] = {.was_killed = was_killed};
    at.news.on_launcher_ended(1, end);
    CHECK(at.processes.orphans.contain(1) == at.job().is_leaderless);
    return at.job().is_leaderless;
  };
  const ChildEnd killed{true, SIGKILL};
  CHECK(is_orphan_after(Phase::running, killed, false, true));
  CHECK_FALSE(is_orphan_after(Phase::running, killed, false, false));
  CHECK_FALSE(is_orphan_after(Phase::running, killed, true, true));
  CHECK_FALSE(is_orphan_after(Phase::stopping, killed, false, true));
  CHECK_FALSE(is_orphan_after(Phase::running, ChildEnd{false, 0}, false, true));
}

TEST_CASE("a launcher that does not stop when it is asked to is told by a signal") {
  for (const int code : {1, 0}) {
    News at(state_with_job(Phase::stopping, {"nodeB/cpu"}, "nodeB"));
    at.launch_on_b();
    at.processes.commands[1] = {.what = JobCommand::What::stop, .words = {}, .is_sent = true};
    at.news.on_answer(1, ChildEnd{false, code});
    REQUIRE(at.tasks(kLauncher).size() == 1);
    CHECK(at.tasks(kLauncher)[0].signal == (code == 0 ? 0 : SIGTERM));
    CHECK(at.job().phase == Phase::stopping);
    CHECK(at.processes.commands.empty());
  }
}

TEST_CASE("a batch that is refused is not asked for at once again, and the job continues") {
  News at(state_with_batch_wanted());
  at.processes.launchers[1] = {};
  at.processes.commands[1] = {.what = JobCommand::What::batch, .words = {}, .is_sent = true};
  replace_bytes(at.hosts.directory.request_log(1), R"({"ok": false, "fault": "peer", "error": "it is busy"})");
  at.news.on_answer(1, ChildEnd{false, 1});
  CHECK(at.job().phase == Phase::running);
  CHECK(at.job().batch.wanted == 0);
  CHECK(at.job().batch.not_before > wall_seconds());
}

TEST_CASE("a daemon that begins judges jobs without a launcher by what their runs left") {
  const auto phase_after = [](const std::string& events) {
    News at(state_with_job(Phase::running, {"cpu"}));
    if (!events.empty()) {
      at.run_file("job.toml", "");
      at.run_file("events.jsonl", events);
    }
    at.news.take_up(1, 0);
    return at.job().phase;
  };
  CHECK(phase_after("") == Phase::waiting);
  CHECK(phase_after("{\"event\": \"start\"}\n{\"event\": \"finished\"}\n") == Phase::done);
  CHECK(phase_after("{\"event\": \"start\"}\n") == Phase::waiting);
}

TEST_CASE("the agents of a run may take over for some time by a clock that nobody sets") {
  for (const double since : {10.0, 151.0}) {
    News at(state_with_job(Phase::running, {"cpu", "nodeB/cpu"}), {.tasks = {RestingPool::task_of(kRunAgent, "t1")}});
    at.processes.orphans.add(1, {dispatch::Ended::How::vanished, "gone"}, seconds(monotonic_ns()) - since);
    at.news.give_up_orphans();
    CHECK(at.tasks(kRunAgent).size() == (since < 150 ? 1 : 0));
  }
}

// Job 1 has an early stop, and its run has written two evaluations that nobody has looked at.
struct EvaluatedNews : News {
  EvaluatedNews() : News(with_early_stop()) {
    run_file("job.toml", "");
    run_file("metrics.jsonl", R"({"step": 10, "eval": {"loss": 2.5, "accuracy": 0.5}})"
                              "\n"
                              R"({"step": 20, "eval": {"loss": 2.0, "accuracy": 0.75}})"
                              "\n");
  }
  static dispatch::State with_early_stop() {
    dispatch::State state = state_with_job(Phase::running, {"cpu"});
    state.jobs[1].request.early_stop = dispatch::EarlyStop{.patience = 2, .metric = "loss"};
    return state;
  }
};

TEST_CASE("the last evaluations of a job are told before its end, whoever finds the end") {
  const auto told = [](auto find_end) {
    EvaluatedNews at;
    find_end(at);
    CHECK(at.job().phase == Phase::waiting);
    CHECK(at.job().evaluations.last == dispatch::Evaluation{20, 2, 0.75, 2});
    return at.job().evaluations.count;
  };
  CHECK(told([](News& at) { at.news.take_up(1, 0); }) == 2);
  CHECK(told([](News& at) {
          at.processes.launchers[1] = {};
          at.news.on_launcher_ended(1, ChildEnd{true, SIGKILL});
        }) == 2);
  CHECK(told([](News& at) {
          at.processes.orphans.add(1, {dispatch::Ended::How::vanished, "gone"}, 0);
          at.news.give_up_orphans();
        }) == 2);
}

TEST_CASE("a first evaluation that is not finite is no better one, as in the run itself") {
  News at(EvaluatedNews::with_early_stop());
  at.processes.launchers[1] = {};
  const std::string bad = R"({"step": 3, "eval": {"loss": null}})"
                          "\n";
  at.run_file("metrics.jsonl", bad);
  at.news.on_look(1, look("training", {"cpu"}));
  CHECK(at.job().evaluations.count == 1);
  CHECK(at.job().evaluations.worse == 1);
  at.run_file("metrics.jsonl", bad + R"({"step": 4, "eval": {"loss": 2}})"
                                     "\n");
  at.news.on_look(1, look("training", {"cpu"}));
  CHECK(at.job().evaluations.worse == 0);
  CHECK(at.job().evaluations.best == 2);
}

TEST_CASE("a daemon that begins counts no failure for a job that had not begun, and one for a launcher that vanished") {
  for (const bool began : {false, true}) {
    News at(state_with_job(Phase::starting, {"cpu"}));
    if (began) at.run_file("job.toml", "");
    at.news.take_up(1, 0);
    CHECK(at.job().failures == (began ? 1 : 0));
  }
}

TEST_CASE("a daemon that begins takes no thread for a launcher whose number the thread has by now") {
  News at(state_with_job(Phase::running, {"cpu"}));
  std::thread([&] {
    const UniqueFd lock = lock_of_run(at.hosts.directory.run(1), ::gettid());
    at.news.take_up(1, 0);
  }).join();
  CHECK(at.processes.launchers.empty());
  CHECK(at.job().phase == Phase::waiting);
}

TEST_CASE("a daemon that begins takes up a launcher whose start no daemon could save, and asks it for its devices") {
  for (const Phase phase : {Phase::checking, Phase::waiting, Phase::held}) {
    News at(state_with_job(phase, {"cpu", "cpu"}));
    const UniqueFd lock = lock_of_run(at.hosts.directory.run(1), ::getpid());
    at.news.take_up_unsaved(1);
    REQUIRE(at.processes.launchers.contains(1));
    CHECK(at.processes.launchers[1].process.pid() == ::getpid());
    CHECK(at.job().phase == Phase::starting);
    at.news.on_look(1, look("training", {"cpu"}));
    CHECK(at.job().phase == Phase::running);
    CHECK(std::ranges::count(at.dispatcher.state().slots, 1, &dispatch::Slot::holder) == 1);
  }
}

TEST_CASE("a daemon that begins takes up a launcher on another host whose start it does not know") {
  pool::Task task = RestingPool::task_of(kLauncher, "t1");
  task.words = {"train", "spec.toml", "--devices", "nodeB/cpu"};
  News at(state_with_job(Phase::waiting, {"nodeB/cpu"}), {.tasks = {task}});
  at.news.take_up_unsaved(1);
  CHECK(std::ranges::count(at.dispatcher.state().slots, 1, &dispatch::Slot::holder) == 1);
  CHECK(at.job().phase == Phase::starting);
  CHECK(at.job().home == "nodeB");
  REQUIRE(at.processes.launchers.contains(1));
  CHECK(at.processes.launchers[1].task == "t1");
  CHECK_FALSE(at.processes.launchers[1].is_found);
}

TEST_CASE("a daemon that begins leaves a waiting job without a launcher alone") {
  News at(state_with_job(Phase::waiting, {"cpu"}));
  at.run_file("job.toml", "");
  at.news.take_up_unsaved(1);
  CHECK(at.processes.launchers.empty());
  CHECK(at.job().phase == Phase::waiting);
}

TEST_CASE("a daemon that begins takes up a launcher on another host, and asks nothing twice") {
  const AgentOfB agent{.tasks = {RestingPool::task_of(kLauncher, "t1"), RestingPool::task_of(kRequest, "t2")}};
  News at(state_with_job(Phase::stopping, {"nodeB/cpu"}, "nodeB"), agent);
  at.news.take_up(1, 0);
  REQUIRE(at.processes.launchers.contains(1));
  CHECK(at.processes.launchers[1].task == "t1");
  CHECK_FALSE(at.processes.launchers[1].is_found);
  REQUIRE(at.processes.commands.contains(1));
  CHECK(at.processes.commands[1].what == JobCommand::What::stop);
  CHECK(at.processes.commands[1].is_sent);
  CHECK(at.job().phase == Phase::stopping);
}

TEST_CASE("a daemon that begins leaves a job whose launcher's host is lost to the other hosts that have its state") {
  News at(state_with_job(Phase::running, {"nodeC/cpu", "nodeB/cpu"}, "nodeC"),
          {.tasks = {RestingPool::task_of(kRunAgent, "t1")}});
  at.news.take_up(1, 0);
  CHECK(at.job().is_leaderless);
  CHECK(at.processes.orphans.contain(1));
  CHECK(at.job().phase == Phase::running);
}

TEST_CASE("a launcher that an earlier daemon ordered is found by the first look at it; a lost request is still meant") {
  News at(state_with_job(Phase::changing, {"nodeB/cpu", "nodeB/cpu"}, "nodeB"));
  at.launch_on_b();
  at.processes.launchers[1].is_found = false;
  at.news.on_look(1, look("training", {"cpu"}));
  CHECK(at.processes.launchers[1].is_found);
  CHECK(at.job().phase == Phase::running);
  CHECK(std::ranges::count(at.dispatcher.state().slots, 1, &dispatch::Slot::holder) == 1);
  CHECK(at.job().targeted() == 2);
}

}  // namespace
}  // namespace estrain::pool

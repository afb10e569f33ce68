// Faults that a run survives: after any loss at any time, results equal those of an undisturbed run bit for bit, and
// every step is recorded once.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "in_time.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "stopped_thread.h"

namespace estrain::testing {
namespace {

const std::string kSteps = "train.steps=400";
const std::string kManyRetries = "recovery.retries=50";

// An undisturbed run of long_job().
const std::string& whole_run() {
  static const ScratchFolder folder;
  static const std::string run = train_on(folder, folder.write("job.toml", long_job()), "1", {"--set", kSteps});
  return run;
}

// Waits for the end of the job and compares it with an undisturbed run.
void check_ends_undisturbed(Job& job) {
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  CHECK(difference(job.run(), whole_run()).text == "");
  CHECK(metric_steps(job.run()) == first_steps(400));
  CHECK(fingerprint_steps(job.run()) == first_steps(400));
  CHECK_FALSE(anyone_left(job.run()));
}

void wait_for_event(const std::string& run, const std::string& name, size_t times) {
  wait_until(
      "event " + name, [&] { return events(run, name).size() >= times; }, 30);
}

// Waits for a worker that is not one of those; its pid may be any number.
pid_t newcomer(const Job& job, const std::vector<pid_t>& others) {
  pid_t found = 0;
  wait_until("a new worker", [&] {
    for (const ProcessInfo& child : job.children()) {
      if (child.is("worker") && std::ranges::count(others, child.pid) == 0) found = child.pid;
    }
    return found != 0;
  });
  return found;
}

void check_survives(const std::string& devices, size_t index, int signal, const std::string& cause) {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Job job(spec, run, {"--devices", devices, "--set", kSteps});
  job.reach(20);
  const std::vector<pid_t> before = job.workers();
  const int64_t begin = monotonic_ns();
  ::kill(before.at(index), signal);
  wait_for_event(run, "recovered", 1);
  CHECK(seconds(monotonic_ns() - begin) < 15);
  const std::vector<pid_t> after = job.workers();
  CHECK(after.size() == before.size());
  // The other processes are the same; only the lost one is new.
  for (size_t i = 0; i < before.size(); ++i) CHECK((std::ranges::count(after, before[i]) == 1) == (i != index));
  check_ends_undisturbed(job);
  const std::vector<Json> faults = events(run, "fault");
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].at("worker") == index);
  CHECK(faults[0].at("cause") == cause);
  CHECK(faults[0].at("step") >= 20);
  CHECK(faults[0].at("noticed_seconds") >= 0);
  CHECK(faults[0].at("noticed_seconds") < 15);
  const Json recovered = events(run, "recovered").at(0);
  CHECK(recovered.at("committed_steps_redone") == 0);
  CHECK(recovered.at("step") == faults[0].at("step"));
}

TEST_CASE("the only worker is killed: another takes up its state") { check_survives("1", 0, SIGKILL, "killed"); }
TEST_CASE("the first of two workers is killed") { check_survives("2", 0, SIGKILL, "killed"); }
TEST_CASE("the last of three workers gets a segmentation fault") {
  check_survives("3", 2, SIGSEGV, "invalid_memory_access");
}
TEST_CASE("a worker is stopped: it is noticed and replaced") { check_survives("2", 1, SIGSTOP, "hung"); }

TEST_CASE("all of many workers are killed at once: that is one fault") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Job job(spec, run, {"--devices", "5", "--set", kSteps, "--set", "recovery.retries=1"});
  job.reach(20);
  for (const pid_t worker : job.workers()) ::kill(worker, SIGKILL);
  wait_for_event(run, "recovered", 1);
  check_ends_undisturbed(job);
  CHECK(events(run, "fault").size() == 5);
  double lost = 0;
  const Json told = events(run, "faults").at(0);
  for (const Json& fault : told.at("faults")) lost += fault.at("seconds_lost").get<double>();
  CHECK(lost == events(run, "recovered")[0].at("seconds_to_next_step"));
}

std::vector<pid_t> readers_of(pid_t worker) {
  std::vector<pid_t> readers;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/" + std::to_string(worker) + "/task")) {
    if (read_file_if_present(thread.path() / "comm") == "estrain-reader\n")
      readers.push_back(std::stoi(thread.path().filename()));
  }
  return readers;
}

TEST_CASE("storage that does not answer for a while costs no worker") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Job job(spec, run, {"--devices", "2", "--set", kSteps, "--set", "data.readers=1"});
  job.reach(20);
  {
    const std::vector<pid_t> readers = readers_of(job.workers().at(0));
    REQUIRE(readers.size() == 1);
    const StoppedThread stopped(readers[0]);
    std::this_thread::sleep_for(std::chrono::seconds(4));
    CHECK(job.step() < 400);
  }
  check_ends_undisturbed(job);
  CHECK(events(run, "fault").empty());
}

TEST_CASE("workers are killed again and again, also while the job recovers") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Job job(spec, run, {"--devices", "3", "--set", kSteps, "--set", kManyRetries, "--set", "checkpoint.every=50"});
  job.reach(10);
  for (int round = 0; round < 4; ++round) {
    // A round may have had two recoveries, so the event may be an earlier round's.
    std::vector<pid_t> workers;
    wait_until("three workers", [&] { return (workers = job.workers()).size() == 3; });
    ::kill(workers.at(static_cast<size_t>(round) % 3), SIGKILL);
    wait_for_event(run, "fault", 2 * static_cast<size_t>(round) + 1);
    // The replacement, which is still starting, or another waiting worker.
    ::kill(round % 2 == 0 ? newcomer(job, workers) : workers.at(static_cast<size_t>(round + 1) % 3), SIGKILL);
    wait_for_event(run, "fault", 2 * static_cast<size_t>(round) + 2);
    wait_for_event(run, "recovered", static_cast<size_t>(round) + 1);
  }
  check_ends_undisturbed(job);
}

// Workers of the job by their processes, before they have a stage. They begin to train soon.
std::vector<pid_t> starting_workers(const Job& job, size_t count) {
  std::vector<pid_t> pids;
  wait_until("workers", [&] {
    pids.clear();
    for (const ProcessInfo& child : job.children()) {
      if (child.is("worker")) pids.push_back(child.pid);
    }
    return pids.size() == count;
  });
  std::ranges::sort(pids);
  return pids;
}

TEST_CASE("workers are killed before the first step: others start in their place") {
  for (size_t index : {0, 1}) {
    in_time("a kill before the first step", [&](Timed& timed) {
      const ScratchFolder folder;
      const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
      Job job(spec, run, {"--devices", "2", "--set", kSteps});
      ::kill(starting_workers(job, 2).at(index), SIGKILL);
      wait_for_event(run, "fault", 1);
      timed.check(events(run, "fault")[0].at("step") == 0, "the kill");
      check_ends_undisturbed(job);
    });
  }
}

TEST_CASE("what cannot pass ends a job at its start, by a rule; in a running job it is recovered from") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job());
  const std::string rules = folder.write("rules.toml", "[[cause]]\nid = \"killed\"\nretry_at_start = false\n");
  const std::vector<std::string> options = {"--set", kSteps, "--set", "recovery.rules=\"" + rules + "\""};
  in_time("a kill before the first step", [&](Timed& timed) {
    const ScratchFolder runs;
    // A model that takes a while to initialise.
    Job job(spec, runs / "starting", with(options, {"--set", "model.hidden=[3000,3000]"}));
    ::kill(starting_workers(job, 1)[0], SIGKILL);
    const Ended ended = job.launcher().wait();
    INFO(ended.shown());
    if (!timed.check(ended.code != 0, "the kill")) return;  // it trained already, and recovered
    CHECK(ended.code == 1);
    CHECK(ended.says("SIGKILL"));
    CHECK_FALSE(ended.says("fault 1 at step"));
    CHECK(events(runs / "starting", "fault").size() == 1);
    CHECK_FALSE(anyone_left(runs / "starting"));
  });
  Job job(spec, folder / "run", options);
  job.reach(20);
  ::kill(job.workers().at(0), SIGKILL);
  wait_for_event(folder / "run", "recovered", 1);
  check_ends_undisturbed(job);
}

TEST_CASE("a worker is killed while a resize warms up another one: both happen") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Job job(spec, run, {"--devices", "2", "--set", kSteps});
  job.reach(10);
  const std::vector<pid_t> workers = job.workers();
  Command resize({"resize", run, "--devices", "3"});
  wait_until("an added worker", [&] { return job.children().size() == 4; });  // two workers and the scribe
  ::kill(workers[0], SIGKILL);
  const Ended resized = resize.wait();
  INFO(resized.shown());
  CHECK(resized.code == 0);
  CHECK(job.workers().size() == 3);
  check_ends_undisturbed(job);
  CHECK(events(run, "fault").size() == 1);
}

TEST_CASE("the scribe is killed: another writes on, and nothing is written twice") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Job job(spec, run, {"--devices", "2", "--set", kSteps, "--set", "checkpoint.every=7", "--set", kManyRetries});
  for (int round = 1; round <= 3; ++round) {
    job.reach(100 * round - 50);
    ::kill(job.scribe(), round == 3 ? SIGSTOP : SIGKILL);
    wait_for_event(run, "fault", static_cast<size_t>(round));
  }
  check_ends_undisturbed(job);
  CHECK(checkpoint_steps(run).back() == 400);
}

TEST_CASE("a fault that comes again and again at one step ends the job with that finding") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job());
  in_time("a second kill before the next step", [&](Timed& timed) {
    const ScratchFolder runs;
    const std::string run = runs / "run";
    // A step of this model takes longer than a worker to be seen and killed.
    Job job(spec, run, {"--devices", "2", "--set", "recovery.retries=1", "--set", "model.hidden=[3000,3000]"});
    job.reach(2);
    const std::vector<pid_t> before = job.workers();
    ::kill(before.at(0), SIGKILL);
    ::kill(newcomer(job, before), SIGKILL);  // any other worker would count as lost by the first fault
    wait_for_event(run, "fault", 2);
    const std::vector<Json> faults = events(run, "fault");
    if (!timed.check(faults[0].at("step") == faults[1].at("step"), "the kill")) return;  // the job recovers once more
    const Ended ended = job.launcher().wait();
    INFO(ended.shown());
    CHECK(ended.code == 1);
    CHECK(ended.says("fault 2 at step"));
    CHECK(ended.says("SIGKILL"));
    CHECK_FALSE(anyone_left(run));
    CHECK(checkpoint_steps(run).back() == faults[0].at("step"));
  });
}

TEST_CASE("a job is stopped while it recovers: the committed step is saved") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Job job(spec, run, {"--devices", "2"});
  job.reach(10);
  ::kill(job.workers().at(1), SIGKILL);
  wait_for_event(run, "fault", 1);
  job.launcher().signal(SIGTERM);
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  CHECK(ended.code == 75);
  CHECK_FALSE(anyone_left(run));
  const int64_t step = checkpoint_steps(run).back();
  CHECK(step >= events(run, "fault")[0].at("step"));
  CHECK(last_step(run) == step);
}

TEST_CASE("an evaluation that a fault cut off is made up for, once") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  const Words evaluate = {"--set", "train.eval_every=1", "--set", "train.eval_batch=8", "--set", "train.steps=6"};
  Words arguments = {"--devices", "2", "--set", kManyRetries};
  arguments.insert(arguments.end(), evaluate.begin(), evaluate.end());
  Job job(spec, run, arguments);
  for (int64_t step = 1; step <= 5; ++step) {
    job.reach(step);  // an evaluation of 60,000 samples takes much longer than a step
    ::kill(job.workers().at(0), SIGKILL);
    wait_for_event(run, "recovered", static_cast<size_t>(step));
  }
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  Words whole = {"train", spec, "--run", folder / "whole"};
  whole.insert(whole.end(), evaluate.begin(), evaluate.end());
  REQUIRE(estrain(whole).code == 0);
  CHECK(difference(run, folder / "whole").text == "");
}

}  // namespace
}  // namespace estrain::testing

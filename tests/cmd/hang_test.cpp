// Hang detection: a worker that stops without a signal is found, a worker busy for long is left alone.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <thread>

#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "shared_memory.h"
#include "stopped_thread.h"

namespace estrain::testing {
namespace {

const Words k300Steps = {"--set", "train.steps=300"};

// Steps of about 50 ms, and an evaluation of `samples` samples at 15 ms each.
std::string evaluating_job(int64_t samples) {
  return R"([job]
name = "evaluating"
seed = 17
ests = 2
[model]
name = "resnet18"
classes = 10
[data]
format = "synthetic"
shape = [3, 32, 32]
batch = 2
samples = )" +
         std::to_string(8 * samples) + R"(
[optimizer]
name = "sgd"
lr = 0.01
[train]
steps = 3
eval_every = 3
)";
}

using Moment = std::function<bool(comm::JobMemory&)>;

// Worker 1 computes.
bool computes(comm::JobMemory& memory) {
  return memory.pulse(WorkerRank(1)).activity.load() == comm::Activity::computing;
}

// Worker 1 waits at a meeting, or has just come from it: sooner or later worker 0 waits for it.
bool meets(comm::JobMemory& memory) { return memory.pulse(WorkerRank(1)).activity.load() == comm::Activity::meeting; }

// The same, and worker 0 waits between the gradient sums and the update.
bool meets_between_sum_and_update(comm::JobMemory& memory) {
  if (!meets(memory)) return false;
  const auto waits_there = [&] { return memory.meetings().summed().arrived.load() == 1; };
  for (int i = 0; i < 50 && !waits_there(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return waits_there();
}

// Stops worker 1's training thread at the right moment.
std::unique_ptr<StoppedThread> stop_worker_1(Job& job, const Moment& is_right) {
  job.reach(20);
  const pid_t worker = job.workers().at(1);
  UniqueFd fd;
  const auto memory = open_shared_memory(job.pid(), &fd);
  std::unique_ptr<StoppedThread> stopped;
  wait_until("a worker at the right moment", [&] {
    stopped.reset();  // otherwise it could not continue
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    stopped = std::make_unique<StoppedThread>(worker);
    return is_right(*memory);
  });
  return stopped;
}

// The launcher's diagnosis of worker 1, which it kills.
std::string blame_of(Job& job, StoppedThread& worker_1) {
  worker_1.wait_for_kill();
  wait_until("the fault", [&] { return !events(job.run(), "fault").empty(); });
  const Json fault = events(job.run(), "fault").at(0);
  CHECK(fault.at("worker") == 1);
  CHECK(fault.at("cause") == "hung");
  return fault.at("what");
}

void check_ends_undisturbed(Job& job, const ScratchFolder& folder, const std::string& spec, size_t faults) {
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  CHECK(events(job.run(), "fault").size() == faults);
  CHECK(difference(job.run(), train_on(folder, spec, "1", k300Steps)).text == "");
}

double seconds_in(const std::string& what) {
  const std::string begin = "made no progress for ";
  REQUIRE(what.starts_with(begin));
  return std::stod(what.substr(begin.size()));
}

TEST_CASE("a worker that stands still, though no signal stopped it, is found and replaced") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job());
  Job job(spec, folder / "run", with({"--devices", "cpu=1,cpu=5"}, k300Steps));
  CHECK(seconds_in(blame_of(job, *stop_worker_1(job, computes))) > 2);
  check_ends_undisturbed(job, folder, spec, 1);
  CHECK(events(job.run(), "recovered").size() == 1);
}

TEST_CASE("recovery.hang_seconds says how long a worker may be silent") {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", long_job()), folder / "run",
          {"--devices", "cpu=1,cpu=5", "--set", "recovery.hang_seconds=5"});
  CHECK(seconds_in(blame_of(job, *stop_worker_1(job, computes))) >= 5);
  CHECK(job.stop().code == 0);
  CHECK(job.launcher().wait().code == 75);
}

TEST_CASE("a worker that stands still while it waits for the others: the stage begins anew, without it if need be") {
  for (const bool goes_on : {true, false}) {
    for (const Moment& moment : {Moment(meets), Moment(meets_between_sum_and_update)}) {
      CAPTURE(goes_on);
      const ScratchFolder folder;
      const std::string spec = folder.write("job.toml", long_job());
      Job job(spec, folder / "run", with({"--devices", "cpu=5,cpu=1"}, k300Steps));
      std::unique_ptr<StoppedThread> stopped = stop_worker_1(job, moment);
      if (goes_on) {
        wait_until("the stall", [&] { return !events(job.run(), "stalled").empty(); });
        stopped.reset();
      } else {
        CHECK(blame_of(job, *stopped).starts_with("did not leave the step that was given up"));
      }
      check_ends_undisturbed(job, folder, spec, goes_on ? 0 : 1);
      CHECK(events(job.run(), "stalled").size() == 1);
    }
  }
}

TEST_CASE("an evaluation whose batch takes far longer than steps costs no worker") {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", evaluating_job(900)), folder / "run", {"--set", "train.eval_batch=900"});
  const Ended ended = job.launcher().wait(300);
  INFO(ended.shown());
  CHECK(ended.code == 0);
  CHECK(ended.says("step 3: test accuracy"));
  CHECK(events(job.run(), "fault").empty());
}

TEST_CASE("a worker is killed in an evaluation: the other one has the time to end its batch") {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", evaluating_job(800)), folder / "run",
          {"--devices", "2", "--set", "train.eval_batch=400"});
  wait_until("the first stage", [&] { return job.step() >= 0; });
  const std::vector<pid_t> workers = job.workers();
  UniqueFd fd;
  const auto memory = open_shared_memory(job.pid(), &fd);
  wait_until("an evaluation", [&] {
    return memory->pulse(WorkerRank(0)).activity.load() == comm::Activity::evaluating &&
           memory->pulse(WorkerRank(1)).activity.load() == comm::Activity::evaluating;
  });
  ::kill(workers.at(1), SIGKILL);
  const Ended ended = job.launcher().wait(300);
  INFO(ended.shown());
  CHECK(ended.code == 0);
  CHECK(ended.says("step 3: test accuracy"));
  REQUIRE(events(job.run(), "fault").size() == 1);
  CHECK(events(job.run(), "fault")[0].at("cause") == "killed");
}

}  // namespace
}  // namespace estrain::testing

// The fault table's actions, with a user's own rules: continue without a device, wait longer each time.

#include <doctest/doctest.h>

#include <csignal>

#include "core/base/clock.h"
#include "held_starts.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "shared_memory.h"

namespace estrain::testing {
namespace {

constexpr int64_t kLong = 1'000'000'000'000;

Words killed_is(const ScratchFolder& folder, const std::string& rule) {
  const std::string rules = folder.write("rules.toml", "[[cause]]\nid = \"killed\"\n" + rule + "\n");
  return {"--set", "recovery.rules=\"" + rules + "\"", "--set", "recovery.retries=50", "--set", "train.steps=300"};
}

void check_went_on_without_a_device(Job& job, const ScratchFolder& folder, const std::string& spec) {
  const std::string run = job.run();
  wait_until("the loss of the device", [&] { return !events(run, "device_lost").empty(); });
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  CHECK(ended.says("cpu is not used any more; the job continues with cpu"));
  REQUIRE(events(run, "device_lost").size() == 1);
  CHECK(events(run, "device_lost")[0].at("device") == "cpu");
  CHECK(events(run, "device_lost")[0].at("cause") == "killed");
  CHECK(events(run, "recovered").size() == 1);
  CHECK(events(run, "recovered").at(0).at("committed_steps_redone") == 0);
  CHECK(events(run, "stage").front().at("workers") == 2);
  CHECK(events(run, "stage").back().at("workers") == 1);
  CHECK(difference(run, train_on(folder, spec, "1", {"--set", "train.steps=300"})).text == "");
}

TEST_CASE("a fault of a device: the job continues without it, on the others, with the same bits") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job());
  Job job(spec, folder / "run", with({"--devices", "2"}, killed_is(folder, "other_device = true")));
  job.reach(20);
  const std::vector<pid_t> workers = job.workers();
  UniqueFd fd;
  const auto memory = open_shared_memory(job.pid(), &fd);
  memory->clock().set_longest({.step_ns = kLong});
  ::kill(workers.at(1), SIGKILL);
  check_went_on_without_a_device(job, folder, spec);
  CHECK(events(job.run(), "fault").size() == 1);
  CHECK(memory->clock().longest().step_ns > 0);
  CHECK(memory->clock().longest().step_ns < kLong);  // what a step took before says nothing of other devices
}

TEST_CASE("the only device there is stays, whatever is said of it") {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", long_job()), folder / "run",
          with({"--devices", "1"}, killed_is(folder, "other_device = true")));
  job.reach(20);
  ::kill(job.workers().at(0), SIGKILL);
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  CHECK(ended.code == 0);
  CHECK(events(job.run(), "device_lost").empty());
  CHECK(events(job.run(), "recovered").size() == 1);
}

TEST_CASE("each attempt waits twice as long as the one before; when none comes up the job does without the device") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job());
  HeldStarts starts;
  Job job(spec, folder / "run", with({"--devices", "2"}, killed_is(folder, "backoff_seconds = 1")));
  job.reach(20);
  pid_t victim = job.workers().at(1);
  starts.begin();
  for (const double wait : {1, 2}) {
    const int64_t killed_ns = monotonic_ns();
    ::kill(victim, SIGKILL);
    victim = starts.next();
    CHECK(seconds(monotonic_ns() - killed_ns) >= wait);
  }
  starts.end();
  ::kill(victim, SIGKILL);
  check_went_on_without_a_device(job, folder, spec);
  CHECK(events(job.run(), "fault").size() == 3);
}

}  // namespace
}  // namespace estrain::testing

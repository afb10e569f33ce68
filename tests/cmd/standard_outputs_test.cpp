// logging.tensorboard and logging.openmetrics of real jobs, across kills and resumes. scripts/peers/standard_outputs.py
// checks them with the readers of other programs.

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "tests/tensorboard_files.h"

namespace estrain::testing {
namespace {

const Words kSwitchedOn = {"--set", "logging.tensorboard=true", "--set", "logging.openmetrics=true"};

std::vector<int64_t> tensorboard_steps(const std::string& run) {
  return shown_by_tensorboard(run + "/tensorboard").steps();
}

// Ends the job without a last checkpoint.
void kill_all(Job& job) {
  const pid_t scribe = job.scribe();
  job.launcher().signal(SIGSTOP);
  ::kill(scribe, SIGKILL);
  job.launcher().kill();
}

TEST_CASE("killed with its scribe, and resumed: TensorBoard shows every step once") {
  const ScratchFolder folder;
  const std::string run = folder / "run";
  Job job(folder.write("job.toml", long_job()), run,
          with(kSwitchedOn, {"--set", "checkpoint.every=30", "--devices", "cpu,cpu"}));
  job.reach(75);
  ::kill(job.scribe(), SIGKILL);  // its replacement begins another file
  job.reach(job.step() + 40);
  kill_all(job);
  Job again = Job::resumed(run);
  again.reach(again.step() + 40);
  REQUIRE(again.stop().code == 0);
  CHECK(again.launcher().wait().code == 75);
  const std::vector<int64_t> steps = tensorboard_steps(run);
  CHECK(steps == metric_steps(run));
  CHECK(steps == first_steps(steps.back()));
  CHECK(events(run, "start").back().at("step").get<int64_t>() < steps.back());
  const std::string standing = bytes_of(run + "/metrics.prom");
  CHECK(standing.find("} " + std::to_string(steps.back()) + "\n") != std::string::npos);
  CHECK(standing.find("event=\"start\"} 2\n") != std::string::npos);
}

TEST_CASE("switched on at a resume, TensorBoard's files have the steps before it, too; off, there are none") {
  const ScratchFolder folder;
  const std::string run = folder / "run";
  Job job(folder.write("job.toml", long_job()), run, {});
  job.reach(30);
  REQUIRE(job.stop().code == 0);
  job.launcher().wait();
  CHECK_FALSE(std::filesystem::exists(run + "/tensorboard"));
  CHECK_FALSE(std::filesystem::exists(run + "/metrics.prom"));
  Job again = Job::resumed(run, kSwitchedOn);
  again.reach(again.step() + 10);
  REQUIRE(again.stop().code == 0);
  again.launcher().wait();
  CHECK(tensorboard_steps(run) == first_steps(last_step(run)));
}

TEST_CASE("records that TensorBoard's files have no room for wait, and none is lost") {
  const ScratchFolder folder;
  const std::string run = folder / "run";
  Job job(folder.write("job.toml", long_job()), run, kSwitchedOn, {.before = "trap '' XFSZ"});
  job.reach(30);
  const pid_t scribe = job.scribe();
  rlimit limit{};
  REQUIRE(::prlimit(scribe, RLIMIT_FSIZE, nullptr, &limit) == 0);
  const rlimit full{100, limit.rlim_max};
  REQUIRE(::prlimit(scribe, RLIMIT_FSIZE, &full, nullptr) == 0);
  wait_until("the warning", [&] { return !events(run, "write_failed").empty(); });
  const int64_t step = job.step();
  REQUIRE(::prlimit(scribe, RLIMIT_FSIZE, &limit, nullptr) == 0);
  job.reach(step + 200);
  REQUIRE(job.stop().code == 0);
  CHECK(job.launcher().wait().code == 75);
  CHECK(tensorboard_steps(run) == metric_steps(run));
  CHECK(tensorboard_steps(run) == first_steps(last_step(run)));
}

TEST_CASE("a link in the place of a file is refused before the job begins") {
  const ScratchFolder folder;
  const std::string run = folder / "run", elsewhere = folder.write("elsewhere", "precious");
  std::filesystem::create_directory(run);
  std::filesystem::create_symlink(elsewhere, run + "/metrics.prom");
  const Ended ended = estrain(with({"train", folder.write("job.toml", mlp_job()), "--run", run}, kSwitchedOn));
  INFO(ended.shown());
  CHECK(ended.code == 2);
  CHECK(ended.says("metrics.prom"));
  CHECK(bytes_of(elsewhere) == "precious");
}

}  // namespace
}  // namespace estrain::testing

// Logs are kept across launches. Text from an earlier launch must not explain a fault of this one.

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

const std::string kDiverged = "step 41: the loss is NaN\n";  // a user's fault, which is never retried

void append(const std::string& file, const std::string& words) { std::ofstream(file, std::ios::app) << words; }

// A stopped run whose logs end with `words`, resumed.
struct Resumed {
  ScratchFolder folder;
  std::string run;
  Job job;

  explicit Resumed(const std::string& words, const Words& more = {})
      : run(stopped(folder, words)), job(Job::resumed(run, with({"--devices", "2"}, more))) {
    job.reach(20);
  }
  static std::string stopped(const ScratchFolder& folder, const std::string& words) {
    std::string run = folder / "run";
    Job first(folder.write("job.toml", long_job()), run, {"--devices", "2"});
    first.reach(5);
    REQUIRE(first.stop().code == 0);
    REQUIRE(first.launcher().wait().code == 75);
    for (const char* log : {"/worker-0.log", "/worker-1.log", "/scribe.log"}) append(run + log, words);
    return run;
  }

  // The cause of the first fault.
  Json fault() {
    wait_until("a fault", [&] { return !events(run, "fault").empty(); });
    return events(run, "fault").at(0);
  }
  void check_goes_on() {
    job.reach(job.step() + 20);
    REQUIRE(job.stop().code == 0);
    const Ended ended = job.launcher().wait();
    INFO(ended.shown());
    CHECK(ended.code == 75);
    const std::vector<int64_t> steps = metric_steps(run);
    CHECK(steps == first_steps(steps.back()));
  }
};

TEST_CASE("yesterday's NaN in a worker's log does not make today's SIGSEGV a diverged model") {
  Resumed resumed(kDiverged);
  ::kill(resumed.job.workers().at(1), SIGSEGV);
  CHECK(resumed.fault().at("cause") == "invalid_memory_access");
  resumed.check_goes_on();
}

TEST_CASE("nor after a resize, which makes the launcher a fresh one") {
  Resumed resumed(kDiverged);
  REQUIRE(resumed.job.resize("1").code == 0);
  ::kill(resumed.job.workers().at(0), SIGSEGV);
  CHECK(resumed.fault().at("cause") == "invalid_memory_access");
  resumed.check_goes_on();
}

TEST_CASE("what the scribe said yesterday is not why it ends today") {
  Resumed resumed("metrics.jsonl: Permission denied\n");
  SUBCASE("in the launcher that started it") {}
  SUBCASE("in the one after a resize") { REQUIRE(resumed.job.resize("1").code == 0); }
  ::kill(resumed.job.scribe(), SIGSEGV);
  CHECK(resumed.fault().at("cause") == "invalid_memory_access");
  resumed.check_goes_on();
}

TEST_CASE("the last lines of a log that a failed run shows are of this launch") {
  Resumed resumed("words of yesterday\n", {"--set", "recovery.retries=0"});
  append(resumed.run + "/worker-1.log", "words of today\n");
  ::kill(resumed.job.workers().at(1), SIGSEGV);
  const Ended ended = resumed.job.launcher().wait();
  INFO(ended.shown());
  CHECK(ended.code == 1);
  CHECK(ended.says("words of today"));
  CHECK_FALSE(ended.says("words of yesterday"));
}

TEST_CASE("a log that was emptied while the job runs loses no words") {
  Resumed resumed(std::string(100, '-') + "\n");
  std::filesystem::resize_file(resumed.run + "/worker-1.log", 0);
  append(resumed.run + "/worker-1.log", "Watchdog caught collective operation timeout\n");
  ::kill(resumed.job.workers().at(1), SIGSEGV);
  CHECK(resumed.fault().at("cause") == "mpi_runtime_failure");
  resumed.check_goes_on();
}

}  // namespace
}  // namespace estrain::testing

// A job keeps training by the spec that it began with, even if its files change meanwhile.

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "core/base/files/files.h"
#include "core/job/spec/parsing/parse.h"
#include "core/state/checkpoint/checkpoint_file.h"
#include "edited_file.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

struct RunningJob {
  ScratchFolder folder;
  std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Job job;
  explicit RunningJob(const Words& more = {}) : job(spec, run, with({"--devices", "2"}, more)) { job.reach(20); }

  void check_ends_undisturbed() {
    job.reach(job.step() + 20);
    REQUIRE(job.stop().code == 0);
    const Ended ended = job.launcher().wait();
    INFO(ended.shown());
    REQUIRE(ended.code == 75);
    const std::string whole = folder / "whole", steps = std::to_string(last_step(run));
    REQUIRE(estrain({"train", spec, "--run", whole, "--set", "train.steps=" + steps}).code == 0);
    CHECK(difference(run, whole).text == "");
    const Ended verified = estrain({"verify", run, whole});
    INFO(verified.shown());
    CHECK(verified.code == 0);
  }
};

void wait_for_event(const std::string& run, const std::string& name) {
  wait_until("event " + name, [&] { return !events(run, name).empty(); });
}

TEST_CASE("job.toml is edited, then a worker killed: the one in its place trains by the old spec") {
  RunningJob running;
  edit(running.run + "/job.toml", "lr = 0.001", "lr = 0.5");
  ::kill(running.job.workers().at(1), SIGKILL);
  wait_for_event(running.run, "recovered");
  running.check_ends_undisturbed();
}

TEST_CASE("job.toml is edited, then the scribe killed: checkpoints carry the old spec") {
  RunningJob running;
  edit(running.run + "/job.toml", "lr = 0.001", "lr = 0.5");
  ::kill(running.job.scribe(), SIGKILL);
  wait_for_event(running.run, "fault");
  running.check_ends_undisturbed();
  const auto last = checkpoint::CheckpointFile::open(latest_checkpoint(running.run));
  CHECK(spec::parse_text(last.meta().spec, "checkpoint").optimizer.lr == 0.001);
}

void check_resizes(RunningJob& running) {
  for (const char* devices : {"3", "1"}) {
    const Ended resized = running.job.resize(devices);
    INFO(resized.shown());
    CHECK(resized.code == 0);
  }
  running.check_ends_undisturbed();
}

TEST_CASE("job.toml is deleted: resizes go on as before") {
  RunningJob running;
  fs::remove(running.run + "/job.toml");
  check_resizes(running);
}

TEST_CASE("job.toml is no TOML any more: resizes and a lost worker do no harm") {
  RunningJob running;
  std::ofstream(running.run + "/job.toml") << "[job\n";
  ::kill(running.job.workers().at(0), SIGKILL);
  wait_for_event(running.run, "recovered");
  check_resizes(running);
}

TEST_CASE("job.toml is edited, and the job resized") {
  RunningJob running;
  edit(running.run + "/job.toml", "batch = 32", "batch = 16");
  check_resizes(running);
}

TEST_CASE("the file of fault rules is deleted or damaged: the rules that the job began with hold") {
  const ScratchFolder folder;
  const std::string rules = folder.write("rules.toml",
                                         "[[cause]]\nid = \"killed\"\nclass = \"infrastructure\"\ndescription = "
                                         "\"by rule\"\nretry = true\nadvice = \"none\"\n");
  RunningJob running({"--set", "recovery.rules=" + rules});
  SUBCASE("deleted") { fs::remove(rules); }
  SUBCASE("damaged") { std::ofstream(rules) << "[[cause\n"; }
  REQUIRE(running.job.resize("1").code == 0);
  ::kill(running.job.workers().at(0), SIGKILL);
  wait_for_event(running.run, "recovered");
  CHECK(events(running.run, "fault").at(0).at("description") == "by rule");
  running.check_ends_undisturbed();
}

}  // namespace
}  // namespace estrain::testing

// Repeated stops and resumes within one epoch: exit code 75 each time and no effect on the bits.

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <thread>

#include "core/base/clock.h"
#include "edited_file.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "setting.h"
#include "stopped_thread.h"

namespace estrain::testing {
namespace {

void check_stopped(Job& job) {
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  CHECK(ended.code == 75);
  CHECK(ended.says("train --resume --run"));
  CHECK(checkpoint_steps(job.run()).back() == last_step(job.run()));
}

void check_chain(const std::string& text) {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", text), run = folder / "run";
  int64_t step = 0;
  const auto go_on = [&](Job job, auto&& end) {
    job.reach(step + 7);
    end(job);
    check_stopped(job);
    REQUIRE(last_step(run) > step);
    step = last_step(run);
    CHECK(metric_steps(run) == first_steps(step));
    CHECK(fingerprint_steps(run) == first_steps(step));
  };
  go_on(Job(spec, run, {"--devices", "2"}), [](Job& job) { job.launcher().signal(SIGTERM); });
  go_on(Job::resumed(run, {"--devices", "3"}), [](Job& job) { job.launcher().signal(SIGINT); });
  go_on(Job::resumed(run, {"--devices", "1"}), [](Job& job) { job.launcher().signal(SIGUSR1); });
  go_on(Job::resumed(run, {"--devices", "cpu=1,cpu=3,cpu=1"}), [](Job& job) {
    const Ended stop = job.stop();
    INFO(stop.shown());
    CHECK(stop.code == 0);
    CHECK(stop.says("stopped at step"));
  });
  const std::string last = "train.steps=" + std::to_string(step + 9);
  const Ended finished = estrain({"train", "--resume", "--run", run, "--devices", "4", "--set", last});
  INFO(finished.shown());
  REQUIRE(finished.code == 0);
  for (const Json& line : events(run, "stage")) CHECK(line.at("stage") == 0);
  CHECK(metric_steps(run) == first_steps(step + 9));

  const std::string whole = folder / "whole";
  REQUIRE(estrain({"train", spec, "--run", whole, "--set", last}).code == 0);
  CHECK(difference(run, whole).text == "");
}

TEST_CASE("SIGTERM, SIGINT, SIGUSR1 and `stop`, each resumed on other workers: no trace (augmentation, momentum)") {
  check_chain(long_image_job());
}

TEST_CASE("--grace 0 gives the step under way up at once") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_image_job());
  Job job(spec, folder / "run", {"--grace", "0", "--set", "data.batch=8000"});  // with long steps
  job.reach(1);
  job.launcher().signal(SIGTERM);
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  CHECK(ended.code == 75);
  CHECK(ended.says("longer than the grace of 0 s: given up"));
}

TEST_CASE("SIGTERM, SIGINT, SIGUSR1 and `stop`, each resumed on other workers: no trace (dropout, AdamW, clipping)") {
  check_chain(replaced(long_job(), "ests = 6", "ests = 5"));
}

TEST_CASE("resume of a finished job does nothing; with more steps it goes on") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job()), run = folder / "run", whole = folder / "whole";
  REQUIRE(estrain({"train", spec, "--run", run, "--set", "train.steps=8"}).code == 0);
  const std::vector<int64_t> saved = checkpoint_steps(run);
  const Ended again = estrain({"train", "--resume", "--run", run});
  INFO(again.shown());
  CHECK(again.code == 0);
  CHECK(metric_steps(run) == first_steps(8));
  CHECK(checkpoint_steps(run) == saved);
  const Ended more = estrain({"train", spec, "--resume", "--run", run, "--devices", "3"});  // the file says 13
  INFO(more.shown());
  CHECK(more.code == 0);
  REQUIRE(estrain({"train", spec, "--run", whole}).code == 0);
  const Difference found = difference(run, whole);
  // The first run also evaluated at its own last step; everything else is equal.
  CHECK(checkpoint_difference(latest_checkpoint(run), latest_checkpoint(whole)) == "");
  CHECK(fingerprint_steps(run) == first_steps(13));
  CHECK(found.first_step >= 8);
}

TEST_CASE("a stop while the job starts, and a second signal, end it with exit code 75") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job());
  const Words large = {"--set", "model.hidden=[5000,5000]"};  // the random numbers of its state take a while
  Job starting(spec, folder / "starting", large);
  wait_until("the control socket", [&] { return !starting.status().empty(); });
  starting.launcher().signal(SIGTERM);
  const Ended early = starting.launcher().wait();
  INFO(early.shown());
  CHECK(early.code == 75);
  CHECK(early.says("stopping (SIGTERM)\n"));

  Job twice(spec, folder / "twice");
  twice.reach(5);
  twice.launcher().signal(SIGTERM);
  twice.launcher().signal(SIGTERM);
  const Ended ended = twice.launcher().wait();
  INFO(ended.shown());
  CHECK(ended.code == 75);
  CHECK(checkpoint_steps(twice.run()).back() >= 5);
}

TEST_CASE("what a Slurm job that has ended left in the environment ends no job, and limits none") {
  const ScratchFolder folder;
  const Setting job("SLURM_JOB_ID", "4999999"), end("SLURM_JOB_END_TIME", "1700000000"),
      memory("SLURM_MEM_PER_NODE", "1");
  const std::string run = folder / "run";
  const Ended ended = estrain({"train", folder.write("job.toml", mlp_job()), "--run", run});
  INFO(ended.shown());
  CHECK(ended.code == 0);
  CHECK(ended.says("warning: Slurm job 4999999 has ended"));
  CHECK(metric_steps(run) == first_steps(13));
  CHECK(events(run, "allocation").empty());
}

TEST_CASE("a stop while a resize waits for the scribe") {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", long_job()), folder / "run", {"--set", "data.batch=8000"});
  job.reach(1);
  auto scribe = std::make_unique<StoppedThread>(job.scribe());
  REQUIRE(job.resize("2").code == 0);
  const int64_t step = events(job.run(), "resize").at(0).at("step");
  Command another({"resize", job.run(), "--devices", "1"});  // waits for the previous one's checkpoint
  job.reach(step + 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // all workers leave their loop
  REQUIRE(job.status().at("state") == "pausing");
  Command stop({"stop", job.run()});
  CHECK(another.wait().says("the job is being stopped"));
  scribe.reset();
  CHECK(stop.ended_within(10s));  // well before the end of the 30 s grace period
  CHECK(stop.wait().code == 0);
  CHECK(checkpoint_steps(job.run()).back() == step + 1);
}

TEST_CASE("several stops at once are all answered") {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", long_job()), folder / "run", {"--set", "data.batch=4000"});
  job.reach(1);
  Command one({"stop", job.run()}), two({"stop", job.run()});
  CHECK(one.wait().code == 0);
  CHECK(two.wait().code == 0);
  CHECK(job.launcher().wait().code == 75);
}

TEST_CASE("what nohup has a program ignore does not stop a job, nor who reads its output and goes away") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), pipe = folder / "pipe";
  Job ignores(spec, folder / "ignores", {}, {.before = "trap '' HUP"});
  ignores.reach(5);
  ignores.launcher().signal(SIGHUP);
  ignores.reach(ignores.step() + 50);
  REQUIRE(ignores.resize("2").code == 0);  // the next launcher ignores it, too
  ignores.launcher().signal(SIGHUP);
  ignores.reach(ignores.step() + 50);
  CHECK(ignores.stop().code == 0);

  Job unread(spec, folder / "unread", {"--set", "logging.every_seconds=0.05"},
             {.before = "mkfifo " + pipe + "; (: <" + pipe + ") & exec >" + pipe + " 2>&1"});
  unread.reach(200);
  CHECK(unread.stop().code == 0);
  CHECK(unread.launcher().wait().code == 75);
}

TEST_CASE("at D0 a resume leaves its trace") {
  const ScratchFolder folder;
  const Words d0 = {"--set", "job.determinism=D0"};
  const std::string spec = folder.write("job.toml", mlp_job()), run = folder / "run", whole = folder / "whole";
  REQUIRE(estrain({"train", spec, "--run", run, "--set", "job.determinism=D0", "--set", "train.steps=6"}).code == 0);
  const Ended resumed = estrain({"train", spec, "--resume", "--run", run, "--set", "job.determinism=D0"});
  INFO(resumed.shown());
  REQUIRE(resumed.code == 0);
  REQUIRE(estrain({"train", spec, "--run", whole, "--set", "job.determinism=D0"}).code == 0);
  CHECK(difference(run, whole).first_step == 7);
}

}  // namespace
}  // namespace estrain::testing

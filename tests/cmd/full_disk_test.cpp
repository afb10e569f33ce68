// A full disk when only the scribe is left. A limit on its file sizes, which needs no privileges, simulates the full
// disk.

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "file_limit.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

std::string process_name(pid_t pid) { return text_if_readable("/proc/" + std::to_string(pid) + "/comm"); }

// Waits until step 0 is saved: the scribe writes that checkpoint beside the first steps.
void await_first_checkpoint(Job& job) {
  wait_until("the first checkpoint", [&] {
    job.status();
    return !events(job.run(), "checkpoint").empty();
  });
}

TEST_CASE("the launcher killed on a full disk: the scribe waits for room with the state, and a resume says so") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run", whole = folder / "whole";
  Job job(spec, run, {"--set", "checkpoint.every=1000000"}, kSurvivesFileLimit);
  job.reach(30);
  await_first_checkpoint(job);
  const pid_t scribe = job.scribe();
  limit_files(scribe, 100);
  wait_until("the warning", [&] { return !events(run, "write_failed").empty(); });
  const int64_t committed = job.step();
  job.launcher().kill();
  wait_until("a scribe that waits", [&] { return process_name(scribe) == "waits for room\n"; });
  const std::string steps = "train.steps=" + std::to_string(committed + 2000);
  Command resumed({"train", "--resume", "--run", run, "--set", steps});
  wait_until("the word that there is no room", [&] {
    return resumed.text().find(run + ": the last launch's scribe (process " + std::to_string(scribe) +
                               ") holds a state that it cannot write, and waits for room on the disk") !=
           std::string::npos;
  });
  CHECK(process_lives(scribe));
  CHECK(events(run, "start").size() == 1);
  CHECK(checkpoint_steps(run) == std::vector<int64_t>{0});
  limit_files(scribe, RLIM_INFINITY);
  const Ended ended = resumed.wait();
  INFO(ended.shown());
  CHECK(ended.code == 0);
  CHECK(events(run, "start").back().at("step").get<int64_t>() >= committed);
  REQUIRE(estrain({"train", spec, "--run", whole, "--set", steps}).code == 0);
  CHECK(difference(run, whole).text == "");
}

TEST_CASE("a scribe whose run directory is gone does not wait for room") {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", long_job()), folder / "run", {}, kSurvivesFileLimit);
  await_first_checkpoint(job);
  const pid_t scribe = job.scribe();
  limit_files(scribe, 100);
  wait_until("the warning", [&] { return !events(job.run(), "write_failed").empty(); });
  job.launcher().kill();
  wait_until("a scribe that waits", [&] { return process_name(scribe) == "waits for room\n"; });
  std::filesystem::remove_all(job.run());
  wait_until("its end", [&] { return !process_lives(scribe); });
}

// Room for the records, none for a checkpoint, until `limit_files(scribe, RLIM_INFINITY)`.
void leave_no_room(Job& job) {
  await_first_checkpoint(job);
  limit_files(job.scribe(), 500'000);
  job.reach(job.step() + 20);
}

void check_waits(Job& job, const std::string& step) {
  Command& launcher = job.launcher();
  wait_until("the word that the end waits for room", [&] {
    return launcher.text().find("the state of step " + step + " waits for room on the disk: ") != std::string::npos;
  });
  const std::string text = launcher.text();
  CHECK(text.find("File too large; ") != std::string::npos);
  CHECK(text.find(" bytes)") != std::string::npos);
  CHECK_FALSE(launcher.ended_within(3s));  // longer than a try
  wait_until("another word", [&] {
    const std::string now = launcher.text();
    return now.find("waits for room", now.find("waits for room") + 1) != std::string::npos;
  });
  CHECK(events(job.run(), "checkpoint_failed").size() == 1);
}

std::string whole_run(const ScratchFolder& folder, const std::string& spec, int64_t steps) {
  return train_on(folder, spec, "1", {"--set", "train.steps=" + std::to_string(steps)});
}

TEST_CASE("a stop on a full disk waits for room, and keeps every step that kill -9 keeps") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Job job(spec, run, {"--set", "checkpoint.every=1000000"}, kSurvivesFileLimit);
  job.reach(30);
  leave_no_room(job);
  job.launcher().signal(SIGTERM);
  wait_until("the stop", [&] { return job.launcher().text().find("stopping (SIGTERM)") != std::string::npos; });
  wait_until("a save", [&] { return !events(run, "checkpoint_failed").empty(); });
  const std::string step = std::to_string(events(run, "checkpoint_failed").back().at("step").get<int64_t>());
  check_waits(job, step);
  CHECK(job.status().at("waits_for_room").get<std::string>().find("File too large") != std::string::npos);
  limit_files(job.scribe(), RLIM_INFINITY);
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  CHECK(ended.code == 75);
  CHECK(checkpoint_steps(run).back() == std::stoll(step));
  REQUIRE(estrain({"train", "--resume", "--run", run, "--set", "train.steps=" + std::to_string(std::stoll(step) + 5)})
              .code == 0);
  CHECK(checkpoint_difference(latest_checkpoint(run),
                              latest_checkpoint(whole_run(folder, spec, std::stoll(step) + 5))) == "");
}

TEST_CASE("the last step on a full disk waits for room, and the job is done when there is some") {
  const ScratchFolder folder;
  const std::string run = folder / "run";
  Job job(folder.write("job.toml", long_job()), run,
          {"--set", "checkpoint.every=1000000", "--set", "train.steps=1000", "--set", "train.eval_every=never"},
          kSurvivesFileLimit);
  await_first_checkpoint(job);
  limit_files(job.scribe(), 500'000);
  check_waits(job, "1000");
  const Ended refused = job.resize("1");
  CHECK(refused.code == 2);
  CHECK(refused.says("the job is ending"));
  limit_files(job.scribe(), RLIM_INFINITY);
  CHECK(job.launcher().wait().code == 0);
  CHECK(checkpoint_steps(run).back() == 1000);
}

TEST_CASE("a run that fails on a full disk waits for room with what it has trained; a second stop gives that up") {
  const ScratchFolder folder;
  const std::string run = folder / "run";
  Job job(folder.write("job.toml", long_job()), run,
          {"--set", "checkpoint.every=1000000", "--set", "recovery.retries=0"}, kSurvivesFileLimit);
  job.reach(30);
  leave_no_room(job);
  REQUIRE(::kill(job.workers().at(0), SIGKILL) == 0);
  wait_until("a save", [&] { return !events(run, "checkpoint_failed").empty(); });
  const std::string step = std::to_string(events(run, "checkpoint_failed").back().at("step").get<int64_t>());
  check_waits(job, step);
  job.launcher().signal(SIGINT);
  wait_until("what would be lost", [&] {
    return job.launcher().text().find("To give it up loses steps 1 to " + step + ". Stop once more") !=
           std::string::npos;
  });
  CHECK_FALSE(job.launcher().ended_within(0ms));
  job.launcher().signal(SIGINT);
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  CHECK(ended.code == 1);
  CHECK(ended.says("given up, as asked: steps 1 to " + step));
  CHECK(checkpoint_steps(run) == std::vector<int64_t>{0});
}

// Small, so that the records need more space than a checkpoint.
std::string small_job() {
  return R"([job]
name = "small"
ests = 1
[model]
name = "mlp"
hidden = [4]
classes = 2
[data]
format = "synthetic"
shape = [4]
samples = 100000
batch = 1
[train]
steps = 1000000
eval_every = "never"
)";
}

TEST_CASE("a stop with room for the state and none for the records: they are waited for, as no resume repeats them") {
  const ScratchFolder folder;
  const std::string run = folder / "run", metrics = run + "/metrics.jsonl";
  Job job(folder.write("job.toml", small_job()), run, {"--set", "checkpoint.every=1000000", "--grace", "1"},
          kSurvivesFileLimit);
  wait_until("records that are larger than a checkpoint", [&] {
    job.status();
    std::error_code absent;
    return std::filesystem::file_size(metrics, absent) > 200'000 && !absent;
  });
  REQUIRE(std::filesystem::file_size(latest_checkpoint(run)) < 100'000);
  limit_files(job.scribe(), 150'000);
  wait_until("the warning", [&] { return !events(run, "write_failed").empty(); });
  Command stop({"stop", run});
  wait_until("the checkpoint", [&] { return !events(run, "checkpoint").empty() && checkpoint_steps(run).back() > 0; });
  CHECK_FALSE(job.launcher().ended_within(1s));
  limit_files(job.scribe(), RLIM_INFINITY);
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  CHECK(ended.code == 75);
  CHECK(stop.wait().code == 0);
  CHECK(events(run, "fault").empty());
  CHECK(metric_steps(run) == first_steps(checkpoint_steps(run).back()));
  CHECK(fingerprint_steps(run) == metric_steps(run));
}

TEST_CASE("records without room are waited for, which is said; a third stop gives them up") {
  const ScratchFolder folder;
  const std::string run = folder / "run", metrics = run + "/metrics.jsonl";
  Job job(folder.write("job.toml", small_job()), run, {"--set", "checkpoint.every=1000000", "--grace", "1"},
          kSurvivesFileLimit);
  wait_until("records that are larger than a checkpoint", [&] {
    job.status();
    std::error_code absent;
    return std::filesystem::file_size(metrics, absent) > 200'000 && !absent;
  });
  limit_files(job.scribe(), 150'000);
  wait_until("the warning", [&] { return !events(run, "write_failed").empty(); });
  Command stop({"stop", run});
  const auto says = [&](const std::string& words) { return job.launcher().text().find(words) != std::string::npos; };
  wait_until("the word that they wait", [&] { return says("the run's last records wait for room on the disk: "); });
  const Ended second = job.stop();
  INFO(second.shown());
  CHECK(second.code == 1);
  CHECK(second.says("To give it up loses records of saved steps, which no resume repeats"));
  Command third({"stop", run});
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  CHECK(ended.code == 1);
  CHECK(ended.says("given up, as asked: records of saved steps"));
  CHECK(stop.wait().code == 1);
  CHECK(third.wait().code == 1);
  CHECK(checkpoint_steps(run).back() > 0);
}

}  // namespace
}  // namespace estrain::testing

// A full disk when only the scribe is left. A limit on its file sizes, which needs no privileges, simulates the full
// disk.

#include <doctest/doctest.h>

#include <filesystem>

#include "core/base/files/files.h"
#include "file_limit.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

std::string process_name(pid_t pid) { return text_if_readable("/proc/" + std::to_string(pid) + "/comm"); }

TEST_CASE("the launcher killed on a full disk: the scribe waits for room with the state, and a resume says so") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run", whole = folder / "whole";
  Job job(spec, run, {"--set", "checkpoint.every=1000000"}, kSurvivesFileLimit);
  job.reach(30);
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
  job.reach(5);
  const pid_t scribe = job.scribe();
  limit_files(scribe, 100);
  wait_until("the warning", [&] { return !events(job.run(), "write_failed").empty(); });
  job.launcher().kill();
  wait_until("a scribe that waits", [&] { return process_name(scribe) == "waits for room\n"; });
  std::filesystem::remove_all(job.run());
  wait_until("its end", [&] { return !process_lives(scribe); });
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
  CHECK_FALSE(job.launcher().ended_within(1000));
  limit_files(job.scribe(), RLIM_INFINITY);
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  CHECK(ended.code == 75);
  CHECK(stop.wait().code == 0);
  CHECK(events(run, "fault").empty());
  CHECK(metric_steps(run) == first_steps(checkpoint_steps(run).back()));
  CHECK(fingerprint_steps(run) == metric_steps(run));
}

}  // namespace
}  // namespace estrain::testing

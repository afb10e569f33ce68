// verdict.json: how a launch ended, whatever its end.

#include "core/state/run_directory/verdict.h"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>

#include "core/base/files/files.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

Json verdict_of(const std::string& run) {
  const auto text = read_file_if_present(run + "/verdict.json");
  return text ? parse_json(*text, "verdict") : Json();
}

TEST_CASE("the verdict of a run that is stopped, refused, killed and finished; none while it trains") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  {
    Job job(spec, run);
    job.reach(5);
    CHECK(verdict_of(run).is_null());
    job.launcher().signal(SIGTERM);
    CHECK(job.launcher().wait().code == 75);
  }
  const Json stopped = verdict_of(run);
  CHECK(stopped.at("exit_code") == 75);
  CHECK(stopped.at("outcome") == "stopped");
  CHECK(stopped.at("cause") == "SIGTERM");
  CHECK(stopped.at("saved_step") == checkpoint_steps(run).back());
  CHECK(stopped.at("advice").get<std::string>().find("--resume --run " + run) != std::string::npos);

  CHECK(estrain({"train", "--resume", "--run", run, "--set", "optimizer.lr=7"}).code == 2);
  const Json refused = verdict_of(run);
  CHECK(refused.at("exit_code") == 2);
  CHECK(refused.at("outcome") == "failed");
  CHECK(refused.at("cause").get<std::string>().find("optimizer.lr") != std::string::npos);

  CHECK(estrain({"train", spec, "--run", run}).code == 2);  // of another run than the one that is there
  CHECK(verdict_of(run) == refused);
  {
    Job job = Job::resumed(run);
    job.reach(stopped.at("saved_step").get<int64_t>() + 3);
    CHECK(verdict_of(run).is_null());
    job.launcher().kill();
    wait_until("the scribe's verdict", [&] { return !verdict_of(run).is_null(); });
  }
  const Json killed = verdict_of(run);
  CHECK(killed.at("exit_code") == 75);
  CHECK(killed.at("outcome") == "killed");
  CHECK(killed.at("saved_step") == checkpoint_steps(run).back());

  const std::string last = "train.steps=" + std::to_string(checkpoint_steps(run).back() + 2);
  CHECK(estrain({"train", "--resume", "--run", run, "--set", last}).code == 0);
  CHECK(verdict_of(run).at("exit_code") == 0);
  CHECK(verdict_of(run).at("outcome") == "finished");
}

TEST_CASE("a job that fails has its error as the cause") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job()), run = folder / "run";
  const Ended ended = estrain({"train", spec, "--run", run, "--set", "optimizer.lr=1e38"});
  INFO(ended.shown());
  REQUIRE(ended.code != 0);
  CHECK(verdict_of(run).at("exit_code") == ended.code);
  CHECK(verdict_of(run).at("outcome") == "failed");
  CHECK(ended.says(verdict_of(run).at("cause").get<std::string>().substr(0, 40)));
}

}  // namespace
}  // namespace estrain::testing

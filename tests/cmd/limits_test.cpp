// Limits of the shell (ulimit) under which no job can run: the command says which one it is.

#include <doctest/doctest.h>

#include <filesystem>

#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

Ended under(const std::string& limit, const Words& words) { return Command(words, {.before = limit}).wait(); }

// No file can have a byte. What the command says goes through a pipe, to somebody who is not limited.
std::string told_without_files(const ScratchFolder& folder, const Words& words, int* code) {
  static int pipes = 0;
  const std::string pipe = folder / ("pipe-" + std::to_string(pipes++));
  Command command(
      words, {.before = "mkfifo " + pipe + "; { cat " + pipe + "; echo END; } & exec >" + pipe + " 2>&1; ulimit -f 0"});
  *code = command.wait().code;
  wait_until("all that it said", [&] { return command.text().ends_with("END\n"); });
  return command.text();
}

TEST_CASE("where no file can have a byte, a start says so, and a resume loses nothing") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job()), run = folder / "run";
  int code = 0;
  const std::string first = told_without_files(folder, {"train", spec, "--run", folder / "none"}, &code);
  CAPTURE(first);
  CHECK(code == 1);
  CHECK(first.find("File too large") != std::string::npos);
  CHECK(first.find("ulimit -f") != std::string::npos);
  REQUIRE(estrain({"train", spec, "--run", run, "--set", "train.steps=4"}).code == 0);
  const std::string resumed = told_without_files(folder, {"train", "--resume", "--run", run}, &code);
  CAPTURE(resumed);
  CHECK(code == 1);
  CHECK(resumed.find("File too large") != std::string::npos);
  const Ended again = estrain({"train", "--resume", "--run", run, "--set", "train.steps=13"});
  INFO(again.shown());
  CHECK(again.code == 0);
  CHECK(checkpoint_difference(latest_checkpoint(run), latest_checkpoint(train_on(folder, spec, "1"))) == "");
}

TEST_CASE("a stack that is too small is raised where that is allowed, else refused") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  const Ended raised = under("ulimit -S -s 64", {"train", spec, "--run", folder / "raised"});
  INFO(raised.shown());
  CHECK(raised.code == 0);
  for (const Words& words :
       {Words{"train", spec, "--run", folder / "refused"}, Words{"check", spec}, Words{"--version"}}) {
    const Ended refused = under("ulimit -s 64", words);
    INFO(refused.shown());
    CHECK(refused.code == 2);
    CHECK(refused.says("the stack may have 64 KB here, 1024 are needed"));
    CHECK(refused.says("ulimit -s"));
  }
  CHECK_FALSE(std::filesystem::exists(folder / "refused"));
  const Ended least = under("ulimit -s 1024", {"train", spec, "--run", folder / "least", "--devices", "2"});
  INFO(least.shown());
  CHECK(least.code == 0);
}

}  // namespace
}  // namespace estrain::testing

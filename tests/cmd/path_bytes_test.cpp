// Paths are bytes: a run's paths need not be UTF-8, which JSON requires.

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>

#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

const std::string kName = "latin1 \xe9\xff";
const std::string kReplaced = "latin1 \xef\xbf\xbd\xef\xbf\xbd";  // U+FFFD for each byte

TEST_CASE("a run path that is not UTF-8: trains, resizes, loses a worker, stops and goes on") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / kName, whole = folder / "whole";
  {
    Job job(spec, run);
    job.reach(5);
    for (const char* devices : {"2", "3"}) {
      const Ended resized = job.resize(devices);
      INFO(resized.shown());
      REQUIRE(resized.code == 0);
    }
    ::kill(job.workers().at(0), SIGKILL);
    wait_until("recovery", [&] { return !events(run, "recovered").empty(); });
    const Ended status = estrain({"status", run, "--json"});
    CHECK(status.code == 0);
    CHECK(parse_json(status.text, "status").at("run") == folder / kReplaced);
    const Ended stopped = estrain({"stop", run, "--json"});
    INFO(stopped.shown());
    CHECK(stopped.code == 0);
    CHECK(job.launcher().wait().code == 75);
  }
  const std::string steps = "train.steps=" + std::to_string(last_step(run) + 5);
  CHECK(estrain({"train", "--resume", "--run", run, "--devices", "2", "--set", steps}).code == 0);
  REQUIRE(estrain({"train", spec, "--run", whole, "--set", steps}).code == 0);
  CHECK(difference(run, whole).text == "");
  const Ended verified = estrain({"verify", run, whole, "--json"});
  INFO(verified.shown());
  CHECK(verified.code == 0);
  CHECK(parse_json(verified.text, "verify").is_object());
}

TEST_CASE("one run whose path is not UTF-8 does not keep the others from being told") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  for (const std::string& name : {kName, std::string("plain")})
    REQUIRE(estrain({"train", spec, "--run", folder / ("runs/" + name)}).code == 0);
  Command all({"status", "--json"}, {.before = "cd '" + folder.path() + "'"});
  const Ended told = all.wait();
  INFO(told.shown());
  CHECK(told.code == 0);
  const Json runs = parse_json(told.text, "status");
  REQUIRE(runs.size() == 2);
  CHECK(runs.at(0).at("run") == "runs/" + kReplaced);
  CHECK(runs.at(1).at("run") == "runs/plain");
  for (const Json& run : runs) CHECK(run.at("state") == "finished");
}

TEST_CASE("other verbs that answer in JSON take such paths, too") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job()), run = folder / kName;
  for (const Words& words : {Words{"check", spec, "--run", run}, Words{"stop", run},
                             Words{"resize", run, "--devices", "1"}, Words{"status", run}, Words{"verify", run, run}}) {
    const Ended ended = estrain(with(words, {"--json"}));
    INFO(ended.shown());
    CHECK((words[0] == "check" ? ended.code == 0 : ended.code != 0));
    CHECK_FALSE(ended.says("type_error"));
  }
}

// A spec is TOML and questions to Python are JSON: both have UTF-8 only.
TEST_CASE("a file of the user's code whose path is not UTF-8 is refused in words") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  folder.write(kName + ".py", "def build():\n    raise SystemExit\n");
  const std::string code = folder / (kName + ".py:build"), shown = folder / (kReplaced + ".py");
  const std::string named = "[model]\nname = \"python\"\nfile = \"";
  folder.write("named.toml", named + code + "\"\n");
  std::filesystem::create_directory(folder / kName);
  folder.write(kName + "/beside.toml", named + "net.py:build\"\n");
  struct Refused {
    Words words;
    std::string why;
  };
  const Refused all[] = {
      {{"train", folder / "named.toml", "--run", folder / "run"}, "utf-8"},
      {{"train", folder / (kName + "/beside.toml"), "--run", folder / "run"},
       "model.file: the name of the folder of this relative path is not UTF-8"},
      {{"train", spec, "--run", folder / "run", "--set", "model.file=" + code},
       "--set model.file=" + shown + ":build: not UTF-8"},
      {{"train", spec, "--run", folder / "run", "--set", "train.metrics_file=" + code}, "not UTF-8"},
      {{"export", code, "--output", folder / "net.pt2"}, shown + ": this path is not UTF-8"},
      {{"init", code, "--output", folder / "made.toml"}, shown + ":build: this path is not UTF-8"},
  };
  for (const Refused& refused : all) {
    const Ended ended = estrain(refused.words);
    INFO(ended.shown());
    CHECK(ended.code == 2);
    CHECK(ended.says(refused.why));
  }
  for (const char* const made : {"run", "net.pt2", "made.toml"}) CHECK(!std::filesystem::exists(folder / made));
}

}  // namespace
}  // namespace estrain::testing

// What `estrain demo` shows, and which files the demo leaves behind when the demo succeeds, fails and is stopped.

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>

#include "core/base/files/files.h"
#include "job.h"
#include "run_files.h"
#include "setting.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

TEST_CASE("the demo resizes a job twice, finds the runs equal, and leaves them in the folder that the user named") {
  const ScratchFolder folder;
  const std::string work = folder / "here";
  const Setting profiles("ESTRAIN_PROFILES", folder / "profiles.json");
  const Ended ended = estrain({"demo", "--folder", work});
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  for (const char* words :
       {"$ estrain resize resized --devices 4\n", ": 1 -> 4 workers, stood still ", ": 4 -> 2 workers, stood still ",
        "\nidentical: bit for bit over ", "The job changed its workers twice, with pauses of ", "estrain init DATA",
        " --html demo.html"})
    CHECK_MESSAGE(ended.says(words), words);
  CHECK(events(work + "/resized", "resize").size() == 2);
  CHECK(events(work + "/undisturbed", "resize").empty());
  CHECK(estrain({"verify", work + "/resized", work + "/undisturbed"}).code == 0);

  CHECK_FALSE(fs::exists(folder / "profiles.json"));

  const Ended again = estrain({"demo", "--folder", work});
  INFO(again.shown());
  CHECK(again.code == 2);
  CHECK(again.says("exists already"));
}

// A demo in the temporary folder `here`, where its first job trains.
struct Begun {
  explicit Begun(const std::string& here) : temporary("TMPDIR", here), demo({"demo"}) {
    wait_until("the demo trains", [&] {
      for (const auto& entry : fs::directory_iterator(here)) {
        if (entry.path().filename().string().starts_with("estrain-demo-")) work = entry.path();
      }
      return !work.empty() && fs::exists(work + "/resized/metrics.jsonl");
    });
  }
  Setting temporary;
  Command demo;
  std::string work;
};

TEST_CASE("a demo that is stopped stops its job, and removes its folder") {
  const ScratchFolder folder;
  Begun begun(folder / "");
  std::vector<pid_t> job;
  for (const ProcessInfo& process : processes()) {
    if (process.parent == begun.demo.pid() && process.is("train")) job.push_back(process.pid);
  }
  REQUIRE(job.size() == 1);
  begun.demo.signal(SIGTERM);
  const Ended ended = begun.demo.wait();
  INFO(ended.shown());
  CHECK(ended.code == 75);
  CHECK(ended.says("the demo was asked to stop"));
  CHECK_FALSE(fs::exists(begun.work));
  CHECK_FALSE(process_lives(job[0]));
}

TEST_CASE("a demo whose job ends too early ends with the exit code of the job, shows its output and keeps the logs") {
  const ScratchFolder folder;
  Begun begun(folder / "");
  REQUIRE(estrain({"stop", begun.work + "/resized"}).code == 0);
  const Ended ended = begun.demo.wait();
  INFO(ended.shown());
  CHECK(ended.code == 75);
  CHECK(ended.says("`estrain train job.toml --run resized --devices 1` ended with exit status 75"));
  CHECK(ended.says("stopping (asked to by `estrain stop`)"));
  CHECK(ended.says("the logs are in " + begun.work));
  CHECK_FALSE(text_if_readable(begun.work + "/resized.log").empty());
}

}  // namespace
}  // namespace estrain::testing

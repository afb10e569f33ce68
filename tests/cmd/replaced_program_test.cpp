// The program is rebuilt or upgraded while a job runs: the job continues with its original version, or reports that it
// cannot.

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "core/base/files/files.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "setting.h"

namespace estrain::testing {
namespace {

namespace fs = std::filesystem;

// A copy of the program and a running job of it.
struct RunningCopy {
  ScratchFolder folder;
  std::string program = folder / "estrain", library = folder / "libestrain_worker.so";
  Setting under_test;
  std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Job job;

  static const std::string& copy(const std::string& program) {
    const char* named = std::getenv("ESTRAIN_PROGRAM");
    const fs::path original = named != nullptr ? named : ESTRAIN_PROGRAM;
    fs::copy(original, program);
    fs::copy(original.parent_path() / "libestrain_worker.so", fs::path(program).parent_path());
    return program;
  }
  RunningCopy() : under_test("ESTRAIN_PROGRAM", copy(program)), job(spec, run, {"--devices", "2"}) { job.reach(20); }
};

// Replaces the file as an installer does: processes keep their old file.
void replace(const std::string& path, const std::string& content) {
  write_file_atomically(path, content);
  fs::permissions(path, fs::perms::owner_all);
}

// Changes the build id in the file that processes have loaded.
void change_build_id(const std::string& path) {
  const std::string bytes = read_file(path), note("\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0", 16);
  const size_t at = bytes.find(note);
  REQUIRE(at != std::string::npos);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(at + note.size()));
  file.put(static_cast<char>(bytes[at + note.size()] ^ 1));
}

void wait_for_events(const std::string& run, const std::string& name, size_t times) {
  wait_until("event " + name, [&] { return events(run, name).size() >= times; });
}

// Runs it to its last step.
void check_undisturbed(const RunningCopy& running) {
  const std::string whole = running.folder / "whole", steps = std::to_string(last_step(running.run));
  REQUIRE(estrain({"train", running.spec, "--run", whole, "--set", "train.steps=" + steps}).code == 0);
  CHECK(difference(running.run, whole).text == "");
}

void stop(Job& job) {
  REQUIRE(job.stop().code == 0);
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  CHECK(ended.code == 75);
}

std::string name_of(pid_t pid) { return read_file("/proc/" + std::to_string(pid) + "/comm"); }

TEST_CASE("program and library are replaced: lost workers, a lost scribe and resizes go on with the old ones") {
  RunningCopy running;
  Job& job = running.job;
  const std::string program = read_file(running.program), library = read_file(running.library);
  replace(running.program, "#!/bin/sh\nexit 3\n");
  replace(running.library, "no library at all\n");
  ::kill(job.workers().at(1), SIGKILL);
  wait_for_events(running.run, "recovered", 1);
  ::kill(job.scribe(), SIGKILL);
  wait_for_events(running.run, "fault", 2);
  wait_until("all have their name", [&] {  // a process that was just executed has not set it yet
    return std::ranges::all_of(job.children(),
                               [](const ProcessInfo& child) { return name_of(child.pid) == "estrain\n"; });
  });
  replace(running.program, program);  // for the command that queries it
  REQUIRE(job.resize("3").code == 0);
  REQUIRE(job.resize("1").code == 0);
  CHECK(name_of(job.pid()) == "estrain\n");
  stop(job);
  CHECK(events(running.run, "fault").size() == 2);
  replace(running.library, library);
  check_undisturbed(running);
}

TEST_CASE("the library is overwritten by another build: its worker is refused by name, and the run can be resumed") {
  RunningCopy running;
  change_build_id(running.library);
  ::kill(running.job.workers().at(1), SIGKILL);
  const Ended ended = running.job.launcher().wait();
  INFO(ended.shown());
  CHECK(ended.code == 1);
  CHECK(ended.says("this worker runs another build of estrain or LibTorch than the run's first one"));
  CHECK(ended.says("estrain train --resume"));
  const std::vector<Json> faults = events(running.run, "fault");
  REQUIRE(faults.size() == 2);
  CHECK(faults[1].at("cause") == "program_replaced");
  CHECK(faults[1].at("class") == "user");

  const std::string more = std::to_string(last_step(running.run) + 5);
  const Ended resumed = estrain({"train", "--resume", "--run", running.run, "--set", "train.steps=" + more});
  INFO(resumed.shown());
  CHECK(resumed.code == 0);
  check_undisturbed(running);
}

TEST_CASE("the library is overwritten by another build: a resize that needs it is given up, the job continues") {
  RunningCopy running;
  change_build_id(running.library);
  const Ended resized = running.job.resize("3");
  INFO(resized.shown());
  CHECK(resized.code == 1);
  CHECK(resized.says("another build of estrain or LibTorch"));
  running.job.reach(running.job.step() + 20);
  stop(running.job);
  check_undisturbed(running);
}

TEST_CASE("a program without its worker library says so") {
  const ScratchFolder folder;
  const Setting under_test("ESTRAIN_PROGRAM", RunningCopy::copy(folder / "estrain"));
  REQUIRE(fs::remove(folder / "libestrain_worker.so"));
  const Ended ended = estrain({"check", folder.write("job.toml", mlp_job())});
  INFO(ended.shown());
  CHECK(ended.code != 0);
  CHECK(ended.says("cannot load the worker library"));
}

}  // namespace
}  // namespace estrain::testing

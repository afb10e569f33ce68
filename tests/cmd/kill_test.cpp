// Killed processes: nothing is left behind, nothing committed is lost, and the message names the process and its cause
// of death.

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <sstream>

#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

// Whether the process has ended, or is dying in the kernel and executes no more of its own code.
bool is_doomed(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  std::ifstream status(folder + "/status"), stat(folder + "/stat");
  std::string pending, line, state;
  for (std::string word; status >> word;)
    if (word == "SigPnd:") status >> pending;
  std::getline(stat, line);
  if (pending.empty() || line.empty()) return true;
  if ((std::stoull(pending, nullptr, 16) >> (SIGKILL - 1)) & 1) return true;
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  uint64_t flags = 0;
  int64_t parent = 0, group = 0, session = 0, terminal = 0, foreground = 0;
  fields >> state >> parent >> group >> session >> terminal >> foreground >> flags;
  constexpr uint64_t kExiting = 0x4,
                     kSignaled = 0x400;  // PF_EXITING and PF_SIGNALED of the kernel's <linux/sched.h>
  return state == "Z" || state == "X" || (flags & (kExiting | kSignaled)) != 0;
}

// Resumes for a few steps and compares with an undisturbed run.
void check_goes_on(const ScratchFolder& folder, const std::string& spec, const std::string& run) {
  const std::string steps = "train.steps=" + std::to_string(checkpoint_steps(run).back() + 8);
  const Ended resumed = estrain({"train", "--resume", "--run", run, "--devices", "2", "--set", steps});
  INFO(resumed.shown());
  REQUIRE(resumed.code == 0);
  const std::string whole = folder / "whole";
  REQUIRE(estrain({"train", spec, "--run", whole, "--set", steps}).code == 0);
  CHECK(difference(run, whole).text == "");
}

void check_killed_launcher(bool after_resize) {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Job job(spec, run, {"--devices", "2"});
  job.reach(10);
  if (after_resize) REQUIRE(job.resize("3").code == 0);
  job.reach(job.step() + 5);
  const std::vector<pid_t> workers = job.workers();
  REQUIRE(workers.size() == (after_resize ? 3 : 2));
  const int64_t seen = job.step();
  job.launcher().signal(SIGKILL);
  CHECK(job.launcher().wait().code == 128 + SIGKILL);
  CHECK(std::ranges::all_of(workers, is_doomed));
  wait_until("the workers' end", [&] { return std::ranges::none_of(workers, process_lives); });
  wait_until("the end of everybody else", [&] { return !anyone_left(run); });
  const std::vector<int64_t> saved = checkpoint_steps(run);
  CHECK(saved.back() >= seen);
  CHECK(last_step(run) >= saved.back());
  check_goes_on(folder, spec, run);
}

TEST_CASE("the launcher is killed: its workers go with it, the committed step is saved, resume leaves no trace") {
  check_killed_launcher(false);
}

TEST_CASE("the launcher is killed after a resize: the same") { check_killed_launcher(true); }

TEST_CASE("the launcher is killed while a resize warms up a worker: that one goes, too") {
  const ScratchFolder folder;
  const std::string run = folder / "run";
  Job job(folder.write("job.toml", long_job()), run);
  job.reach(5);
  Command resize({"resize", run, "--devices", "2"});
  wait_until("an added worker", [&] { return job.children().size() == 3; });  // besides the first one and the scribe
  const std::vector<ProcessInfo> children = job.children();
  job.launcher().signal(SIGKILL);
  job.launcher().wait();
  for (const ProcessInfo& child : children) CHECK((!child.is("worker") || is_doomed(child.pid)));
  wait_until("the workers' end", [&] {
    return std::ranges::none_of(children,
                                [](const auto& child) { return child.is("worker") && process_lives(child.pid); });
  });
  const Ended refused = resize.wait();
  INFO(refused.shown());
  CHECK(refused.code == 1);
  wait_until("the end of everybody else", [&] { return !anyone_left(run); });
  CHECK(checkpoint_steps(run).back() >= 5);
}

TEST_CASE("a resume right after the launcher was killed waits for the last checkpoint") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run", whole = folder / "whole";
  Job job(spec, run, {"--devices", "2"});
  job.reach(20);
  job.launcher().signal(SIGKILL);
  const std::string steps = "train.steps=400";
  const Ended resumed = estrain({"train", "--resume", "--run", run, "--devices", "3", "--set", steps});
  INFO(resumed.shown());
  REQUIRE(resumed.code == 0);
  CHECK(events(run, "start").at(1).at("step") >= 20);
  REQUIRE(estrain({"train", spec, "--run", whole, "--set", steps}).code == 0);
  CHECK(difference(run, whole).text == "");
}

void check_killed_worker(const std::string& devices, size_t index) {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Job job(spec, run, {"--devices", devices, "--set", "recovery.retries=0"});
  job.reach(10);
  const std::vector<pid_t> workers = job.workers();
  ::kill(workers.at(index), SIGKILL);
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  CHECK(ended.code == 1);
  CHECK(ended.says("estrain: worker " + std::to_string(index)));
  CHECK(ended.says("process " + std::to_string(workers[index])));
  CHECK(ended.says("SIGKILL"));
  CHECK(ended.says("memory"));
  CHECK(ended.says(" MB"));
  CHECK(ended.says(run + "/worker-" + std::to_string(index) + ".log"));
  const int64_t last = checkpoint_steps(run).back();
  CHECK(last >= 10);
  CHECK(ended.says("last good step: " + std::to_string(last)));
  CHECK_FALSE(anyone_left(run));
  const std::vector<Json> failures = events(run, "failed");
  REQUIRE(failures.size() == 1);
  CHECK(failures[0].at("worker") == index);
  CHECK(failures[0].at("last_good_step") == last);
  const Ended status = estrain({"status", run, "--json"});
  CHECK(parse_json(status.text, "status").at("state") == "failed");
  check_goes_on(folder, spec, run);
}

TEST_CASE("the only worker is killed") { check_killed_worker("1", 0); }
TEST_CASE("the first of two workers is killed: it is named") { check_killed_worker("2", 0); }
TEST_CASE("the last of three workers is killed: it is named") { check_killed_worker("3", 2); }

TEST_CASE("a worker dies of another signal: it is named") {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", long_job()), folder / "run", {"--devices", "2", "--set", "recovery.retries=0"});
  job.reach(3);
  ::kill(job.workers().at(1), SIGSEGV);
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  CHECK(ended.code == 1);
  CHECK(ended.says("worker 1"));
  CHECK(ended.says("SIGSEGV"));
}

TEST_CASE("the scribe is killed and may not be replaced: the run fails, says so, and can be resumed") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Job job(spec, run, {"--devices", "2", "--set", "checkpoint.every=10", "--set", "recovery.retries=0"});
  wait_until("a checkpoint", [&] {
    job.status();  // throws if the job has ended
    return ::access((run + "/events.jsonl").c_str(), F_OK) == 0 && events(run, "checkpoint").size() >= 3;
  });
  ::kill(job.scribe(), SIGKILL);
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  CHECK(ended.code == 1);
  CHECK(ended.says("scribe"));
  CHECK(ended.says("SIGKILL"));
  CHECK_FALSE(anyone_left(run));
  check_goes_on(folder, spec, run);
}

}  // namespace
}  // namespace estrain::testing

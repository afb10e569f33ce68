// The scribe is lost, and no resources are left to start another one.

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>
#include <thread>

#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

std::set<rlim_t> open_descriptors(pid_t pid) {
  std::set<rlim_t> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd"))
    open.insert(std::stoull(entry.path().filename().string()));
  return open;
}

// The descriptors that stay open; a file in use at this moment would free one more later.
std::set<rlim_t> lasting_descriptors(pid_t pid) {
  std::set<rlim_t> lasting = open_descriptors(pid);
  for (int look = 0; look < 60; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::set<rlim_t> now = open_descriptors(pid);
    std::erase_if(lasting, [&](rlim_t descriptor) { return !now.contains(descriptor); });
  }
  return lasting;
}

// During the object's lifetime, the process can open only `more` descriptors.
class NoMoreDescriptors {
 public:
  NoMoreDescriptors(pid_t pid, rlim_t more) : pid_(pid) {
    REQUIRE(::prlimit(pid_, RLIMIT_NOFILE, nullptr, &before_) == 0);
    const std::set<rlim_t> open = lasting_descriptors(pid_);
    rlim_t end = 0;  // of the allowed numbers; higher descriptors stay open
    for (rlim_t free = 0; free < more || open.contains(end); ++end) free += open.contains(end) ? 0 : 1;
    const rlimit limit{end, before_.rlim_max};
    REQUIRE(::prlimit(pid_, RLIMIT_NOFILE, &limit, nullptr) == 0);
  }
  ~NoMoreDescriptors() { ::prlimit(pid_, RLIMIT_NOFILE, &before_, nullptr); }
  NoMoreDescriptors(const NoMoreDescriptors&) = delete;

 private:
  pid_t pid_;
  rlimit before_{};
};

bool said_of_scribe(const Json& fault, const std::string& words) {
  return fault.at("worker") == "scribe" && fault.at("what").get<std::string>().find(words) != std::string::npos;
}

void wait_for_failed_starts(const std::string& run, std::ptrdiff_t times) {
  wait_until("attempts to start a scribe", [&] {
    const std::vector<Json> faults = events(run, "fault");
    return std::ranges::count_if(faults, [](const Json& f) { return said_of_scribe(f, "Too many open files"); }) >=
           times;
  });
}

TEST_CASE("another scribe is tried again until there is what it needs") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  const Words steps = {"--set", "train.steps=2000"};
  Job job(spec, run, with({"--devices", "2"}, steps));
  job.reach(20);
  {
    const NoMoreDescriptors none(job.pid(), 2);
    ::kill(job.scribe(), SIGKILL);
    wait_for_failed_starts(run, 2);
  }
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  CHECK(difference(run, train_on(folder, spec, "1", steps)).text == "");
  CHECK(metric_steps(run) == first_steps(2000));
  CHECK(checkpoint_steps(run).back() == 2000);
  CHECK_FALSE(anyone_left(run));
}

TEST_CASE("where no scribe can be started beside the workers, the job ends, and one saves its state without them") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Job job(spec, run, {"--devices", "3", "--set", "recovery.retries=1"});
  job.reach(20);
  const NoMoreDescriptors none(job.pid(), 2);
  ::kill(job.scribe(), SIGKILL);
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  CHECK(ended.code == 1);
  CHECK(ended.says("the scribe, which writes the run's files, cannot be started"));
  CHECK(ended.says("Too many open files"));
  CHECK_FALSE(anyone_left(run));
  REQUIRE(checkpoint_steps(run).back() >= 20);
  CHECK(last_step(run) == checkpoint_steps(run).back());
  const Ended resumed = estrain(
      {"train", "--resume", "--run", run, "--set", "train.steps=" + std::to_string(checkpoint_steps(run).back() + 5)});
  INFO(resumed.shown());
  CHECK(resumed.code == 0);
}

}  // namespace
}  // namespace estrain::testing

#include "job.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <stdexcept>

#include "core/base/clock.h"
#include "core/run/launch/control/control_socket.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

constexpr Nanoseconds kPatience = 10s;

}  // namespace

std::string train_on(const ScratchFolder& folder, const std::string& spec, const std::string& devices,
                     const Words& more) {
  static int runs = 0;
  const std::string run = folder / ("run-" + std::to_string(runs++));
  const Ended ended = estrain(with({"train", spec, "--run", run, "--devices", devices}, more));
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  return run;
}

std::string train_in_two(const ScratchFolder& folder, const std::string& spec, const std::string& first,
                         const std::string& last) {
  const std::string run = train_on(folder, spec, "1", {"--set", "train.steps=" + first});
  const Ended ended =
      estrain({"train", "--resume", "--run", run, "--devices", "cpu=1,cpu=3", "--set", "train.steps=" + last});
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  return run;
}

void check_disturbed_job(const ScratchFolder& folder, const std::string& spec, const Words& devices,
                         const DisturbedPlaces& places) {
  const Words for_long = {"--set", "train.steps=1000000", "--set", "train.eval_every=never"};
  Job job(spec, folder / "moved", with({"--devices", places.first}, for_long));
  job.reach(places.steps);
  for (const std::string& list : devices) {
    const Ended resize = job.resize(list);
    INFO(resize.shown());
    REQUIRE(resize.code == 0);
    job.reach(job.step() + places.steps);
  }
  REQUIRE(::kill(job.workers().at(1), SIGKILL) == 0);
  job.reach(job.step() + 5 * places.steps);
  REQUIRE(job.stop().code == 0);
  CHECK(job.launcher().wait().code == 75);
  const Words steps = {"--set", "train.steps=" + std::to_string(last_step(job.run()) + places.steps + 2)};
  const Ended resumed = estrain(with({"train", "--resume", "--run", job.run(), "--devices", places.resumed}, steps));
  INFO(resumed.shown());
  REQUIRE(resumed.code == 0);
  const Words whole = with({"--set", "train.eval_every=never"}, steps);
  CHECK(difference(job.run(), train_on(folder, spec, places.first, whole)).text == "");
}

Job::Job(std::string run, const Words& arguments, Command::Options options)
    : run_(std::move(run)), launcher_(arguments, options) {}

Job::Job(std::string spec, std::string run, const Words& more, Command::Options options)
    : Job(run, with({"train", std::move(spec), "--run", run}, more), options) {}

Job Job::resumed(const std::string& run, const Words& more) {
  return Job(run, with({"train", "--resume", "--run", run}, more), Command::Options{});
}

Job::~Job() {
  launcher_.kill();
  try {
    wait_until("the end of everybody in the run", [this] { return !anyone_left(run_); });
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", run_, error.what());
  }
}

Json Job::status() {
  if (launcher_.ended_within(0ms)) throw std::runtime_error("the job has ended: " + launcher_.wait().shown());
  try {
    return launch::ask_launcher(run_, decisions::StatusRequest{}, kPatience);
  } catch (const Error&) {
    return Json::object();  // not listening yet, or within a re-exec
  }
}

int64_t Job::step() { return status().value("step", INT64_C(-1)); }

void Job::reach(int64_t wanted) {
  wait_until("step " + std::to_string(wanted), [&] { return step() >= wanted; });
}

std::vector<pid_t> Job::workers() {
  std::vector<pid_t> pids;
  wait_until("the list of workers", [&] {
    const Json now = status();
    for (const Json& worker : now.value("workers", Json::array())) pids.push_back(worker.at("pid").get<pid_t>());
    return !pids.empty();
  });
  return pids;
}

std::vector<ProcessInfo> Job::children() const {
  std::vector<ProcessInfo> mine;
  for (ProcessInfo& process : processes())
    if (process.parent == pid() && !process.is("fork-server")) mine.push_back(std::move(process));
  return mine;
}

std::vector<pid_t> Job::fork_servers() const {
  std::vector<pid_t> pids;
  for (const ProcessInfo& process : processes())
    if (process.parent == pid() && process.is("fork-server")) pids.push_back(process.pid);
  return pids;
}

pid_t Job::scribe() const {
  for (const ProcessInfo& child : children())
    if (child.is("scribe")) return child.pid;
  throw std::runtime_error("the job has no scribe");
}

std::string place_of(pid_t pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  std::string place;
  std::getline(maps, place, '-');
  return place;
}

bool are_copies_of(const std::vector<pid_t>& workers, pid_t server) {
  return std::ranges::all_of(workers, [&](pid_t pid) { return place_of(pid) == place_of(server); });
}

bool anyone_left(const std::string& run) {
  const std::vector<ProcessInfo> all = processes();
  return std::ranges::any_of(all, [&](const ProcessInfo& process) {
    return std::ranges::find(process.arguments, run) != process.arguments.end();
  });
}

}  // namespace estrain::testing

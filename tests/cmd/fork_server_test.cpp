// Workers are copies of a process that has loaded its libraries. A run gets on without that process, too.

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>

#include "job.h"
#include "job_specs.h"
#include "run_files.h"

namespace estrain::testing {
namespace {

// Kills one, and waits until another is in its place.
void lose_worker(Job& job) {
  const std::vector<pid_t> before = job.workers();
  ::kill(before.at(0), SIGKILL);
  wait_until("another worker", [&] {
    const std::vector<pid_t> now = job.workers();
    return now.size() == before.size() && std::ranges::find(now, before[0]) == now.end();
  });
  job.reach(job.step() + 3);
}

TEST_CASE("workers of the start, of a resize and of a recovery are copies of one server") {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", long_job()), folder / "run", {"--devices", "2"});
  job.reach(3);
  const std::vector<pid_t> found = job.fork_servers();
  REQUIRE(found.size() == 1);
  CHECK(job.workers().size() == 2);
  CHECK(are_copies_of(job.workers(), found[0]));
  REQUIRE(job.resize("3").code == 0);
  CHECK(job.workers().size() == 3);
  CHECK(are_copies_of(job.workers(), found[0]));
  lose_worker(job);
  CHECK(are_copies_of(job.workers(), found[0]));
  CHECK(job.fork_servers() == found);
}

TEST_CASE("each kind of device has a server of its own") {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", long_job()), folder / "run", {"--devices", "cpu:sse"});
  job.reach(3);
  REQUIRE(job.fork_servers().size() == 1);
  const pid_t first = job.fork_servers()[0];
  CHECK(are_copies_of(job.workers(), first));
  REQUIRE(estrain({"resize", job.run(), "--devices", "cpu", "--allow-mixed"}).code == 0);
  CHECK(job.fork_servers().size() == 2);
  CHECK_FALSE(are_copies_of(job.workers(), first));
}

TEST_CASE("a job whose server is killed goes on, and its workers start by exec") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run", whole = folder / "whole";
  int64_t steps = 0;
  {
    Job job(spec, run, {"--devices", "2"});
    job.reach(3);
    const pid_t server = job.fork_servers().at(0);
    const std::string place = place_of(server);
    ::kill(server, SIGKILL);
    lose_worker(job);
    const std::vector<pid_t> workers = job.workers();
    CHECK(std::ranges::count(workers, place, place_of) == 1);
    CHECK(job.fork_servers().empty());
    REQUIRE(job.resize("3").code == 0);
    job.reach(job.step() + 3);
    REQUIRE(job.stop().code == 0);
    job.launcher().wait();
    steps = checkpoint_steps(run).back();
  }
  REQUIRE(estrain({"train", spec, "--run", whole, "--set", "train.steps=" + std::to_string(steps)}).code == 0);
  CHECK(difference(run, whole).text == "");
}

}  // namespace
}  // namespace estrain::testing

// A worker that something outside slows down: named, with the step at which it began, and no longer when it is over.

#include <doctest/doctest.h>

#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "throttled.h"

namespace estrain::testing {
namespace {

// Events of this name about worker 1.
std::vector<Json> about_worker_1(const std::string& run, const std::string& name) {
  std::vector<Json> found = events(run, name);
  std::erase_if(found, [](const Json& event) { return event.at("worker") != 1; });
  return found;
}

TEST_CASE("a worker that gets a quarter of its time is named within 20 steps, and when it is at speed again") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Job job(spec, run, {"--devices", "2", "--set", "data.batch=300"});  // a step of 0.1 s while it is slowed down
  job.reach(60);                                                      // what is usual is known
  const size_t before = about_worker_1(run, "slow_worker").size();
  const int64_t begin = job.step();
  {
    const Throttled throttled(job.workers().at(1));
    wait_until(
        "slow_worker", [&] { return about_worker_1(run, "slow_worker").size() > before; }, 60);
    const Ended status = estrain({"status", run});
    INFO(status.shown());
    CHECK(status.says("times the usual since step"));
    CHECK(job.status().at("workers").at(1).at("slow").at("factor") > 1.5);
  }
  const Json named = about_worker_1(run, "slow_worker").back();
  INFO(named.dump());
  CHECK(named.at("step").get<int64_t>() - begin <= 20);
  CHECK(named.at("since_step").get<int64_t>() >= begin - 20);  // at most in the window that was under way
  CHECK(named.at("since_step") <= named.at("step"));
  CHECK(named.at("factor") > 1.5);
  CHECK(named.at("factor") < 20);
  const size_t recoveries = about_worker_1(run, "worker_at_speed").size();
  wait_until(
      "worker_at_speed", [&] { return about_worker_1(run, "worker_at_speed").size() > recoveries; }, 60);
  CHECK(events(run, "fault").empty());  // it was slow, and nobody took it for hung
  CHECK(job.stop().code == 0);
  CHECK(job.launcher().wait().code == 75);
  CHECK(job.launcher().wait().says("worker 1 is slow"));
}

}  // namespace
}  // namespace estrain::testing

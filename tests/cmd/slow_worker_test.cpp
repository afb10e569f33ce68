// A worker slowed down from outside: reported with the step at which it began, until it recovers.

#include <doctest/doctest.h>

#include "in_time.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "throttled.h"

namespace estrain::testing {
namespace {

constexpr int kNamedSeconds = 60;

// Events with this name about worker 1.
std::vector<Json> about_worker_1(const std::string& run, const std::string& name) {
  std::vector<Json> found = events(run, name);
  std::erase_if(found, [](const Json& event) { return event.at("worker") != 1; });
  return found;
}

// Throttles a job's second worker to a quarter for a while. Returns the launcher's events about it.
void slow_down(Timed& timed) {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", long_job()), run = folder / "run";
  Job job(spec, run, {"--devices", "2", "--set", "data.batch=300"});  // a step of 0.1 s while it is slowed down
  job.reach(60);                                                      // the usual speed is known
  const size_t before = about_worker_1(run, "slow_worker").size();
  const int64_t begin = job.step();
  {
    const Throttled throttled(job.workers().at(1));
    const auto named = [&] { return about_worker_1(run, "slow_worker").size() > before; };
    if (timed.check(comes_true(named, kNamedSeconds), "it is named")) {
      const Ended status = estrain({"status", run});
      INFO(status.shown());
      timed.check(status.says("times the usual since step"), "status names it: " + status.text);
      const Json slow = job.status().at("workers").at(1);
      timed.check(slow.contains("slow") && slow.at("slow").at("factor") > 1.5, "by how much: " + slow.dump());
    }
  }
  if (timed.late().empty()) {
    const Json named = about_worker_1(run, "slow_worker").back();
    timed.check(named.at("step").get<int64_t>() - begin <= 20, "within 20 steps: " + named.dump());
    // At most in the current window.
    timed.check(named.at("since_step").get<int64_t>() >= begin - 20, "not from before it: " + named.dump());
    CHECK(named.at("since_step") <= named.at("step"));
    CHECK(named.at("factor") > 1.5);
    timed.check(named.at("factor") < 20, "by about four times: " + named.dump());
    const size_t recoveries = about_worker_1(run, "worker_at_speed").size();
    const auto at_speed = [&] { return about_worker_1(run, "worker_at_speed").size() > recoveries; };
    timed.check(comes_true(at_speed, kNamedSeconds), "it is at speed again");
    CHECK(job.launcher().text().find("worker 1 is slow") != std::string::npos);
  }
  CHECK(events(run, "fault").empty());  // it was slow, and not diagnosed as hung
  CHECK(job.stop().code == 0);
  CHECK(job.launcher().wait().code == 75);
}

TEST_CASE("a worker that gets a quarter of its time is named within 20 steps, and when it is at speed again") {
  in_time("a slow worker is named", slow_down);
}

}  // namespace
}  // namespace estrain::testing

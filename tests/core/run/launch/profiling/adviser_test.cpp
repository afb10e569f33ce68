#include "core/run/launch/profiling/adviser.h"

#include <doctest/doctest.h>

#include "tests/durations.h"

namespace estrain::launch {
namespace {

TEST_CASE("over several hosts the launcher's worker stays, however slow it is") {
  spec::JobSpec spec;
  spec.job.ests = 4;
  spec.model.name = "mlp";
  spec.train.clip_grad_norm = 1;
  Adviser adviser(spec, {});
  adviser.settle({"a CPU", 8, "1"}, false);
  decisions::State job;
  job.ests = 4;
  std::vector<SpeedMeter::Worker> done;
  for (const char* device : {"cpu", "nodeB/cpu", "nodeB/cpu"}) {
    const auto id = std::ssize(job.workers);
    decisions::Member member;
    member.id = decisions::WorkerId(id);
    member.device = *placement::parse_device(device);
    job.workers.push_back(member);
    job.held.push_back(member.device);
    done.push_back({id, device, 1, 0, 0});
  }
  adviser.begin_stage(job, Step(0));
  int64_t now = 0;
  for (int64_t step = 1; step <= 60; ++step) {
    now += 110 * kMs;
    for (SpeedMeter::Worker& worker : done) {
      worker.computing_ns += (worker.id == 0 ? 100 : 1) * kMs;
      ++worker.mini_batches;
    }
    adviser.observe(step, now, 0, done);
  }
  const Devices rest = placement::devices_from({"cpu", "nodeB/cpu"});
  const auto others = placement::devices_of(adviser.shrunk_to(job, rest, rest, "nodeB").devices);
  CHECK(others == placement::devices_from({"nodeB/cpu"}));  // the best plan, where it may be had
  const auto shrunk = placement::devices_of(adviser.shrunk_to(job, rest, rest, "").devices);
  CHECK(shrunk == rest);
}

}  // namespace
}  // namespace estrain::launch

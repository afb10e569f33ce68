// `--devices auto`: as many workers as this process may use cores.

#include <doctest/doctest.h>
#include <sched.h>

#include "command.h"
#include "core/job/resources/machine_limits.h"
#include "job_specs.h"
#include "run_files.h"
#include "setting.h"

namespace estrain::testing {
namespace {

// Restricts this process, and so its children, to its first `cores` cores.
class FewCores {
 public:
  explicit FewCores(int cores) {
    REQUIRE(::sched_getaffinity(0, sizeof all_, &all_) == 0);
    cpu_set_t few;
    CPU_ZERO(&few);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&few) < cores; ++cpu) {
      if (CPU_ISSET(cpu, &all_)) CPU_SET(cpu, &few);
    }
    REQUIRE(::sched_setaffinity(0, sizeof few, &few) == 0);
    count_ = static_cast<int>(resources::machine_limits().cores);
  }
  ~FewCores() { ::sched_setaffinity(0, sizeof all_, &all_); }
  int count() const { return count_; }  // fewer than asked for on a small machine

 private:
  const Setting no_gpu_{"CUDA_VISIBLE_DEVICES", ""};
  cpu_set_t all_{};
  int count_ = 0;
};

std::string plain_workers(int count) {
  std::string list = "cpu";
  while (--count > 0) list += ",cpu";
  return list;
}

TEST_CASE("auto takes the cores that there are, anew at every start, and leaves no trace") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job() + "[resources]\ndevices = \"auto\"\n");
  const std::string run = folder / "run", whole = folder / "whole";
  int wide = 0;
  {
    const FewCores cores(2);
    wide = cores.count();
    REQUIRE(estrain({"train", spec, "--run", run, "--set", "train.steps=6"}).code == 0);
  }
  {
    const FewCores cores(1);
    const Ended resumed = estrain({"train", spec, "--resume", "--run", run});
    INFO(resumed.shown());
    REQUIRE(resumed.code == 0);
    CHECK(resumed.says("devices \"auto\" are cpu here: cores 1 (CPU affinity), threads of a worker 1, ESTs 8"));
  }
  const std::vector<Json> starts = events(run, "start");
  REQUIRE(starts.size() == 2);
  CHECK(starts[0].at("devices") == plain_workers(wide));
  CHECK(starts[1].at("devices") == "cpu");

  REQUIRE(estrain({"train", spec, "--run", whole, "--devices", "3"}).code == 0);
  CHECK(events(whole, "start").at(0).at("devices") == "cpu,cpu,cpu");  // the command line wins
  CHECK(checkpoint_difference(latest_checkpoint(run), latest_checkpoint(whole)) == "");
}

TEST_CASE("auto gives a worker as many cores as it has threads") {
  const ScratchFolder folder;
  const std::string spec = folder.write("job.toml", mlp_job());
  const FewCores cores(2);
  const Ended ended = estrain({"train", spec, "--run", folder / "run", "--devices", "auto", "--set", "job.threads=2",
                               "--set", "train.steps=1"});
  INFO(ended.shown());
  REQUIRE(ended.code == 0);
  CHECK(events(folder / "run", "start").at(0).at("devices") == "cpu");
}

}  // namespace
}  // namespace estrain::testing

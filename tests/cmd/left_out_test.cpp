// A skipped update (train.nonfinite = "skip") in a stage that is aborted before its commit.

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <optional>

#include "core/base/clock.h"
#include "job.h"
#include "job_specs.h"
#include "run_files.h"
#include "shared_memory.h"
#include "stopped_thread.h"

namespace estrain::testing {
namespace {

// The worker that skipped the update of a step and waits for space for its record; nothing if none yet.
std::optional<int64_t> committing(comm::JobMemory& memory) {
  const bool is_full = memory.ring().waiting() + 1 == memory.ring().capacity();
  if (!is_full || memory.ring().pending().head->left_out.where == comm::Nonfinite::Where::nowhere) return {};
  for (int64_t rank = 0; rank < 3; ++rank) {
    if (memory.pulse(WorkerRank(rank)).activity.load() == comm::Activity::waiting_for_scribe) return rank;
  }
  return {};
}

TEST_CASE("a worker that comes late from the meeting over a step that is left out does not take it for refused") {
  const ScratchFolder folder;
  Job job(folder.write("job.toml", mlp_job()), folder / "run",
          {"--devices", "cpu=1,cpu=1,cpu=6", "--set", "train.steps=10000000", "--set", "train.eval_every=never",
           "--set", "train.nonfinite=skip", "--set", "optimizer.name=sgd", "--set", "optimizer.lr=1e30", "--set",
           "schedule.warmup=0", "--set", "recovery.hang_seconds=100"});
  job.reach(2);
  const std::vector<pid_t> workers = job.workers();
  UniqueFd fd;
  const auto memory = open_shared_memory(job.pid(), &fd);
  for (bool done = false; !done;) {
    const StoppedThread scribe(job.scribe());
    wait_until("a full ring", [&] { return committing(*memory).has_value(); });
    const int64_t last_to_arrive = committing(*memory).value();
    if (last_to_arrive == 0) continue;  // EST 0, whose loss is the first that is not finite, is to be another's
    const uint32_t meeting = memory->meetings().finished().generation.load();
    {
      const StoppedThread late(workers.at(0));
      ::kill(workers.at(static_cast<size_t>(3 - last_to_arrive)), SIGKILL);
      wait_until("the end of the meeting", [&] { return memory->meetings().finished().generation.load() != meeting; });
    }
    done = true;
  }
  wait_until("the recovery",
             [&] { return !events(job.run(), "recovered").empty() || job.launcher().ended_within(0ms); });
  const Ended stopped = job.stop();
  INFO(stopped.shown());
  CHECK(stopped.code == 0);
  const Ended ended = job.launcher().wait();
  INFO(ended.shown());
  CHECK(ended.code == 75);
  REQUIRE(events(job.run(), "fault").size() == 1);
  CHECK(events(job.run(), "fault")[0].at("cause") == "killed");
}

}  // namespace
}  // namespace estrain::testing

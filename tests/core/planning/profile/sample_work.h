#pragma once
// A job, a machine, and stages of runs, as the tests of profiles need them.

#include <string>
#include <vector>

#include "core/job/spec/parsing/parse.h"
#include "core/planning/profile/stage_speed.h"
#include "core/planning/profile/work.h"

namespace estrain::profile {

inline spec::JobSpec some_job(const std::string& more = "") {
  return spec::parse_text(R"([job]
ests = 8
determinism = "D2"
[model]
name = "lenet"
classes = 10
[data]
format = "synthetic"
shape = [1, 28, 28]
batch = 16
[optimizer]
name = "sgd"
[train]
steps = 10
)" + more,
                          "job.toml");
}

inline MachineFacts some_host() { return {"Some CPU", 4, "1.0 abc"}; }

struct Load {
  std::string kind;
  int64_t ests;
  double mini_batch_seconds;
};

// A stage of 10 steps, each with this exchange after the slowest worker.
inline StageSpeed stage(const std::vector<Load>& loads, double exchange) {
  StageSpeed speed;
  speed.steps = 10;
  double slowest = 0;
  for (const Load& load : loads) {
    const double busy = static_cast<double>(load.ests) * load.mini_batch_seconds;
    speed.workers.push_back({load.kind, load.ests, 10 * load.ests, 10 * busy});
    slowest = std::max(slowest, busy);
  }
  speed.seconds = 10 * (slowest + exchange);
  return speed;
}

}  // namespace estrain::profile

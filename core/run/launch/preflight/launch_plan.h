#pragma once
// The request to `train`, checked.

#include <cstdint>
#include <string>

#include "core/base/files/unique_fd.h"
#include "core/job/placement/assignment.h"
#include "core/job/spec/job_spec.h"
#include "core/run/launch/preflight/run_options.h"

namespace estrain::launch {

struct LaunchPlan {
  std::string run;
  spec::JobSpec spec;
  placement::Assignment devices;
  RunOptions options;
  double grace_seconds = 0;    // from a signal to the checkpoint; then the step under way is discarded
  std::string checkpoint;      // to resume from; empty: from the seed
  std::string checkpoint_cpu;  // the processor that made the checkpoint
  int64_t from_step = 0;
  std::string fault_rules;    // text of the user's own
  bool accepts_data = false;  // though the data files differ from the checkpoint's
  std::string changes;        // of changes.jsonl, up to from_step
  UniqueFd lock;
};

}  // namespace estrain::launch

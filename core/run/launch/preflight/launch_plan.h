#pragma once
// The request to `train`, checked.

#include <cstdint>
#include <string>

#include "core/base/files/unique_fd.h"
#include "core/base/json/fields.h"
#include "core/job/placement/assignment.h"
#include "core/job/spec/job_spec.h"

namespace estrain::launch {

// The exceptions which a run was asked to accept, with effects on all launchers and workers of the run.
struct RunOptions {
  bool allow_mixed = false;    // devices of different kinds, whose bits differ below D2
  bool oversubscribe = false;  // several workers on one GPU
  bool cuda_streams = false;   // the state has a place for the ESTs' CUDA generators
  bool background = false;     // workers use processors that are idle
  std::string shared_mark;     // a file of run/launch/control/shared_mark.h; empty: nobody shares the devices
  std::string own_host;        // the launcher's host in device lists; empty: it has no name
  std::string listen;          // where agents without the run directory join; empty: nowhere

  ESTRAIN_FIELDS(allow_mixed, oversubscribe, cuda_streams, background, shared_mark, own_host, listen)
};

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

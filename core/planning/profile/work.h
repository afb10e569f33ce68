#pragma once
// The key of a measured speed: everything that decides how long a mini-batch of a job takes on a device, as
// fields for users to read. Jobs with equal fields share a profile; a job with a different field has its own
// profile.
//
// A key of the spec is a field if the key affects the speed: seeds, learning rates and schedules are not fields.
// The location of a data set is a field only if the files determine the shape of a sample. A user's own network
// is identified by its file's path.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/json/json.h"
#include "core/job/spec/job_spec.h"

namespace estrain::profile {

// The machine and build, besides the kind of device.
struct MachineFacts {
  std::string cpu;                     // the processor's model name
  int64_t cores = 1;                   // available to the run
  std::string build;                   // the build of estrain: another may be faster
  std::vector<std::string> gpus = {};  // the models of cuda:0, cuda:1, …; empty: unknown

  // Returns the name that identifies a kind's speed: for a GPU the model, if known; otherwise the kind's own name.
  std::string model_of(std::string_view kind) const;
};

struct Work {
  std::vector<std::pair<std::string, std::string>> fields;  // {"model.name", "gpt"}…, in a fixed order

  bool operator==(const Work&) const = default;
  Json to_json() const;  // an object
};

// Throws Fault::bug if job.determinism is still "auto", since the level decides the kernels.
Work describe_work(const spec::JobSpec& spec, std::string_view kind, const MachineFacts& host);

// With one worker and no clipping, the update runs within the mini-batch of the last EST
// (core/engine/train/shared/updater.h), and a single worker's time per mini-batch includes a share of the update.
bool updates_within_mini_batch(const spec::JobSpec& spec, int64_t workers);

}  // namespace estrain::profile

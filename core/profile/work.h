#pragma once
// What a measured speed belongs to: everything that decides how long a mini-batch of a job takes on a device, as fields
// that a user can read. Two jobs that agree in all of them share one profile; a job that differs in one is measured by
// itself.
//
// What a key of the spec is worth to the speed decides whether it is a field: seeds, learning rates and schedules are
// none. Where a data set lies is one only as long as the spec leaves the shape of a sample to the files. A user's own
// network goes by its file's path.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/spec/job_spec.h"

namespace estrain::profile {

// Who computes, beside the kind of device.
struct Host {
  std::string cpu;                     // the processor's model name
  int64_t cores = 1;                   // that the run may use
  std::string build;                   // which estrain: another one may be faster
  std::vector<std::string> gpus = {};  // the models of cuda:0, cuda:1, …; empty: not known

  // What a kind of device is to its speed: a GPU its model, where that is known. Anything else is what it is called.
  std::string model_of(std::string_view kind) const;
};

struct Work {
  std::vector<std::pair<std::string, std::string>> fields;  // {"model.name", "gpt"}…, in a fixed order

  bool operator==(const Work&) const = default;
};

// Throws Fault::bug where job.determinism is still "auto": what it means decides on the kernels.
Work describe_work(const spec::JobSpec& spec, std::string_view kind, const Host& host);

// With one worker and no clipping the optimizer's update is done within the mini-batch of the last EST
// (core/train/updater.h), so that a lone worker's time per mini-batch holds a share of it.
bool updates_within_mini_batch(const spec::JobSpec& spec, int64_t workers);

}  // namespace estrain::profile

#pragma once
// A commented job spec to start from.

#include <string>

#include "core/job/spec/job_spec.h"

namespace estrain::spec {

constexpr int64_t starter_ests = 4, starter_batch = 8;

struct Starter {
  std::string name;  // job.name
  DataSection data;
  ModelSection model{};  // without a name: the format's usual model
};

// Returns TOML for the job: without a model gpt for text, lenet for IDX, resnet18 for other images. The spec has every
// table, and comments with the defaults of frequently changed keys. The spec is ready to run.
std::string starter_spec(const Starter& starter);

}  // namespace estrain::spec

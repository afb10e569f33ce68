#pragma once
// A commented job spec to start from.

#include <string>

#include "core/job/spec/job_spec.h"

namespace estrain::spec {

// Returns TOML for a job on this data set: gpt for text, lenet for IDX, resnet18 for other images. The spec has every
// table, and comments with the defaults of frequently changed keys. `name` is job.name. The spec is ready to run.
std::string starter_spec(const std::string& name, const DataSection& data);

}  // namespace estrain::spec

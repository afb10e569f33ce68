#pragma once
// A commented job spec to start from.

#include <string>

#include "core/spec/job_spec.h"

namespace estrain::spec {

// TOML for a job on that data set: gpt for text, lenet for IDX, resnet18 for other images. Every table is there; keys
// that a user often changes stand as comments with their defaults. `name` is job.name. Ready to run as it is.
std::string starter_spec(const std::string& name, const DataSection& data);

}  // namespace estrain::spec

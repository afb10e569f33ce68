#pragma once
// Random specs that parsing accepts.

#include <random>

#include "core/job/spec/job_spec.h"

namespace estrain::spec {

JobSpec random_spec(std::mt19937_64& random);

}  // namespace estrain::spec

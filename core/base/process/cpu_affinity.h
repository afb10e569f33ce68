#pragma once

#include <cstdint>

namespace estrain {

// The number of logical CPUs that this thread may run on, >= 1.
int64_t cpus_of_affinity();

}  // namespace estrain

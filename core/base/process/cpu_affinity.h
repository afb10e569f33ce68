#pragma once

#include <cstdint>

namespace estrain {

// Returns the number of logical CPUs available to this thread, >= 1.
int64_t cpus_of_affinity();

}  // namespace estrain

#pragma once

#include <cstdint>

namespace estrain {

// How many logical CPUs this thread may run on, >= 1.
int64_t cpus_of_affinity();

}  // namespace estrain

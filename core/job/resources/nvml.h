#pragma once
// Asks the driver's library for managing GPUs (NVML). Unlike CUDA, NVML takes no memory of a GPU, and a process that
// has used it can start others.

#include <cstdint>
#include <string>
#include <vector>

namespace estrain::resources {

// Returns the bytes of the GPUs with these bus addresses ("0000:3b:00.0"), in this order; empty if the driver has no
// such library, or does not tell.
std::vector<uint64_t> memory_of_gpus_at(const std::vector<std::string>& places);

}  // namespace estrain::resources

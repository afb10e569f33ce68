#pragma once
// The random streams of an EST as slots of the state, and their digest in a step's record.

#include <cstdint>
#include <string_view>

namespace estrain::checkpoint {

inline constexpr std::string_view generator_slot = "generator";            // torch's CPU generator
inline constexpr std::string_view cuda_generator_slot = "cuda_generator";  // torch's CUDA generator; not in every job

// `cuda`: 0 if there is no such slot.
inline uint64_t streams_digest(uint64_t cpu, uint64_t cuda) { return cpu + 3 * cuda; }

}  // namespace estrain::checkpoint

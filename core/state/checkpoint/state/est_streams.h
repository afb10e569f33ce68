#pragma once
// The random streams of an EST as slots of the state, and their digest in a step's record.

#include <cstdint>
#include <string_view>

namespace estrain::checkpoint {

inline constexpr std::string_view generator_slot = "generator";            // torch's CPU generator
inline constexpr std::string_view cuda_generator_slot = "cuda_generator";  // torch's CUDA generator; not in every job

inline constexpr std::string_view python_slot = "python";  // Python's and numpy's; where the model is a Python module

// 0 for an absent slot.
inline uint64_t streams_digest(uint64_t cpu, uint64_t cuda, uint64_t python) { return cpu + 3 * cuda + 5 * python; }

}  // namespace estrain::checkpoint

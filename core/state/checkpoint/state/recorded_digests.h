#pragma once
// Converts the digests of a state's tensors to the digests on a run's record for the same state.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/state/checkpoint/state/state_layout.h"

namespace estrain::checkpoint {

// Returns digests by the names of the fingerprints file: a parameter with its optimizer slots, a buffer,
// "est/<rank>/generator". `digests` belong to layout.tensors.
std::map<std::string, uint64_t> recorded_digests(const StateLayout& layout, const std::vector<uint64_t>& digests);

// The digest of each of layout.tensors.
std::vector<uint64_t> digests_of_tensors(const StateLayout& layout, const std::byte* state);

}  // namespace estrain::checkpoint

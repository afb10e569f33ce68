#pragma once
// Converts the digests of a checkpoint's tensors to those that a run records for the same state.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/checkpoint/state_layout.h"

namespace estrain::verify {

// Keyed by the names of the fingerprints file: a parameter with its optimizer slots, a buffer, "est/<rank>/generator".
// `digests` are those of layout.tensors.
std::map<std::string, uint64_t> recorded_digests(const checkpoint::StateLayout& layout,
                                                 const std::vector<uint64_t>& digests);

}  // namespace estrain::verify

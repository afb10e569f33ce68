#pragma once
// Tests with more cases in scripts/check at_length than in scripts/test.

#include <cstdint>
#include <cstdlib>

namespace estrain::testing {

inline bool is_at_length() { return std::getenv("ESTRAIN_AT_LENGTH") != nullptr; }

// So many rounds; at length, all of them.
inline uint64_t rounds(uint64_t few, uint64_t all) { return is_at_length() ? all : few; }

}  // namespace estrain::testing

#pragma once
// Tests that scripts/check at_length repeats with more cases than scripts/test.

#include <cstdlib>
#include <utility>

#include "command.h"

namespace estrain::testing {

// These few; at length, also the others.
inline Words at_length(Words few, const Words& others) {
  return std::getenv("ESTRAIN_AT_LENGTH") != nullptr ? with(std::move(few), others) : few;
}

}  // namespace estrain::testing

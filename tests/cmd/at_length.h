#pragma once
// Lists that are longer in scripts/check at_length than in scripts/test.

#include <utility>

#include "command.h"
#include "tests/at_length.h"

namespace estrain::testing {

// These few; at length, also the others.
inline Words at_length(Words few, const Words& others) { return is_at_length() ? with(std::move(few), others) : few; }

}  // namespace estrain::testing

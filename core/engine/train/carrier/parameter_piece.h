#pragma once
// The part of a parameter that an update takes at a time.

#include <cstddef>

namespace estrain::train {

// Elements [begin, begin + size) of a parameter.
struct ParameterPiece {
  size_t parameter, begin, size;
};

}  // namespace estrain::train

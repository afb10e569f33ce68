#pragma once
// A ParameterPiece is the part of a parameter taken by one update.

#include <cstddef>

namespace estrain::train {

// Elements [begin, begin + size) of a parameter.
struct ParameterPiece {
  size_t parameter, begin, size;
};

}  // namespace estrain::train

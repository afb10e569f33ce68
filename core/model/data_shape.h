#pragma once
// The shape of one sample, as far as a model must know it.

#include <cstdint>
#include <variant>

namespace estrain::model {

struct ImageShape {
  int64_t channels;
  int64_t height;
  int64_t width;
};

struct VectorShape {
  int64_t features;
};

// A sequence of token ids.
struct TokenShape {
  int64_t context;  // tokens of the longest sequence
};

using DataShape = std::variant<ImageShape, VectorShape, TokenShape>;

}  // namespace estrain::model

#pragma once
// The shape of one sample, as needed by a model.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/formats/program/program.h"

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

// Named arrays of various types.
struct NamedShape {
  struct NamedField {
    std::string name;
    program::ScalarType type;
    std::vector<int64_t> dims;  // of one sample
    bool is_ragged = false;     // dims[0] is the longest sample's; each mini-batch has a length of its own
    double pad = 0;             // of a ragged array: what fills the end of a shorter sample
  };
  std::vector<NamedField> fields;
};

using DataShape = std::variant<ImageShape, VectorShape, TokenShape, NamedShape>;

}  // namespace estrain::model

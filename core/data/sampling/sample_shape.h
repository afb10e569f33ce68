#pragma once
// A SampleShape is the shape of a sample of a data set, for a model.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/formats/program/program.h"

namespace estrain::data {

struct SampleShape {
  enum class Kind {
    image,   // float32 {channels, height, width}; a class as target
    vector,  // float32 {length}; a class as target
    tokens,  // int64 {length}; `length` next tokens as targets
    fields,  // several named arrays; the model chooses the targets
  };
  struct Field {
    std::string name;
    program::ScalarType type;
    std::vector<int64_t> dims;  // of one sample
    // Samples have lengths of their own. dims[0] is the length of a mini-batch: for a data set, the longest.
    bool is_ragged = false;
    double pad = 0;           // what fills the end of a shorter sample
    bool is_derived = false;  // made from a ragged array, the lengths or the mask

    int64_t elements() const {
      int64_t product = 1;
      for (const int64_t dim : dims) product *= dim;
      return product;
    }
    size_t row_bytes() const {  // of an entry of a ragged array; of a sample of another one
      const size_t row = program::type_size(type);
      size_t elements = 1;
      for (size_t d = is_ragged ? 1 : 0; d < dims.size(); ++d) elements *= static_cast<size_t>(dims[d]);
      return elements * row;
    }
    size_t bytes() const { return static_cast<size_t>(elements()) * program::type_size(type); }
    bool operator==(const Field&) const = default;
  };

  Kind kind = Kind::image;
  int64_t channels = 0, height = 0, width = 0;  // image
  int64_t length = 0;                           // vector, tokens
  std::vector<Field> parts{};                   // fields

  static SampleShape image(int64_t channels, int64_t height, int64_t width) {
    return {.kind = Kind::image, .channels = channels, .height = height, .width = width};
  }
  static SampleShape vector(int64_t length) { return {.kind = Kind::vector, .length = length}; }
  static SampleShape tokens(int64_t length) { return {.kind = Kind::tokens, .length = length}; }
  static SampleShape fields(std::vector<Field> parts) { return {.kind = Kind::fields, .parts = std::move(parts)}; }

  int64_t elements() const { return kind == Kind::image ? channels * height * width : length; }
  size_t element_bytes() const { return kind == Kind::tokens ? sizeof(int64_t) : sizeof(float); }
  size_t input_bytes() const {
    size_t bytes = 0;
    for (const Field& part : parts) bytes += part.bytes();
    return kind == Kind::fields ? bytes : static_cast<size_t>(elements()) * element_bytes();
  }
  // Of the i-th array, 0 for the input if there are no named arrays.
  size_t bytes_of_input(size_t i) const { return kind == Kind::fields ? parts[i].bytes() : input_bytes(); }
  bool is_ragged() const { return std::ranges::any_of(parts, &Field::is_ragged); }
  // The shape in a mini-batch in which each ragged array has the length `lengths[i]`.
  SampleShape with_lengths(std::span<const int64_t> lengths) const {
    SampleShape shape = *this;
    for (size_t i = 0; i < lengths.size(); ++i)
      if (parts[i].is_ragged) shape.parts[i].dims[0] = lengths[i];
    return shape;
  }
  int64_t targets() const { return kind == Kind::tokens ? length : kind == Kind::fields ? 0 : 1; }
  size_t bytes() const { return input_bytes() + static_cast<size_t>(targets()) * sizeof(int64_t); }
  std::vector<int64_t> dims() const {
    return kind == Kind::image ? std::vector<int64_t>{channels, height, width} : std::vector<int64_t>{length};
  }

  bool operator==(const SampleShape&) const = default;
};

}  // namespace estrain::data

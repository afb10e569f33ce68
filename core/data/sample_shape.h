#pragma once
// What one sample of a data set looks like to a model.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace estrain::data {

struct SampleShape {
  enum class Kind {
    image,   // float32 {channels, height, width}; one class as target
    vector,  // float32 {length}; one class as target
    tokens,  // int64 {length}; `length` next tokens as targets
  };

  Kind kind = Kind::image;
  int64_t channels = 0, height = 0, width = 0;  // image
  int64_t length = 0;                           // vector, tokens

  static SampleShape image(int64_t channels, int64_t height, int64_t width) {
    return {Kind::image, channels, height, width, 0};
  }
  static SampleShape vector(int64_t length) { return {Kind::vector, 0, 0, 0, length}; }
  static SampleShape tokens(int64_t length) { return {Kind::tokens, 0, 0, 0, length}; }

  int64_t elements() const { return kind == Kind::image ? channels * height * width : length; }
  size_t element_bytes() const { return kind == Kind::tokens ? sizeof(int64_t) : sizeof(float); }
  size_t input_bytes() const { return static_cast<size_t>(elements()) * element_bytes(); }
  int64_t targets() const { return kind == Kind::tokens ? length : 1; }
  size_t bytes() const { return input_bytes() + static_cast<size_t>(targets()) * sizeof(int64_t); }
  std::vector<int64_t> dims() const {
    return kind == Kind::image ? std::vector<int64_t>{channels, height, width} : std::vector<int64_t>{length};
  }

  bool operator==(const SampleShape&) const = default;
};

}  // namespace estrain::data

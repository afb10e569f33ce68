#pragma once
// Compares two tensors of equal type and shape element by element.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/state/checkpoint/state/state_layout.h"

namespace estrain::verify {

struct ElementDifference {
  uint64_t index = 0;            // flat, in C order
  std::vector<int64_t> at;       // the same index per dimension
  std::string value_a, value_b;  // shortest decimal text that reads back as the same number
  std::string bits_a, bits_b;    // hexadecimal
  std::optional<uint64_t>
      distance;  // floats: representable numbers in between + 1 (ulp); integers: difference. No value for NaN
};

struct TensorDifference {
  std::string path;  // "/model/fc.weight"
  checkpoint::DType dtype;
  std::vector<int64_t> shape;
  uint64_t differing = 0;  // elements
  ElementDifference first;
};

// Returns nothing if both are equal bit for bit (so -0 differs from 0, and equal NaNs do not differ).
std::optional<TensorDifference> compare_elements(const checkpoint::StateTensor& tensor, const std::byte* a,
                                                 const std::byte* b);

// Returns the number of float32 values between a and b, plus 1; 0 and -0 are neighbours. Returns nothing for a NaN.
std::optional<uint64_t> ulp_distance(float a, float b);
std::optional<uint64_t> ulp_distance(double a, double b);

}  // namespace estrain::verify

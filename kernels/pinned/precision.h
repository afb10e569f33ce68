#pragma once
// The precision of pinned operations.

#include <cstddef>

namespace estrain::kernels::pinned {

enum class Element { f32, bf16 };  // type of all operands; sums are float32

enum class Math {
  exact,  // float32 products of unrounded operands
  tf32,   // float32 operands may be rounded to TF32
};

// Algorithms that need more workspace are excluded; convolutions of large operands may use more.
constexpr size_t kMostWorkspace = size_t{256} << 20;  // bytes

constexpr size_t bytes_of(Element element) { return element == Element::f32 ? 4 : 2; }
const char* name_of(Element element);  // "f32", "bf16"
const char* name_of(Math math);        // "exact", "tf32"

}  // namespace estrain::kernels::pinned

#pragma once
// What pinned operations compute in.

#include <cstddef>

namespace estrain::kernels::pinned {

enum class Element { f32, bf16 };  // of all operands; sums are float32

enum class Math {
  exact,  // float32 products of the operands as they are
  tf32,   // float32 operands may be rounded to TF32
};

// Algorithms that want more memory beside the operands are none; convolutions of large operands may have more.
constexpr size_t kMostWorkspace = size_t{256} << 20;  // bytes
constexpr size_t kWorkspaceAlignment = 256;

constexpr size_t bytes_of(Element element) { return element == Element::f32 ? 4 : 2; }
const char* name_of(Element element);  // "f32", "bf16"
const char* name_of(Math math);        // "exact", "tf32"

}  // namespace estrain::kernels::pinned

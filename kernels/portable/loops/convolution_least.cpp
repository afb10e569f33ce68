#include "kernels/portable/loops/convolution_parts.h"
#include ESTRAIN_VECTORS

namespace estrain::kernels::ESTRAIN_ISA {

using Magnitudes = uint32_t __attribute__((vector_size(sizeof(Floats))));

float least_magnitude(const float* x, int64_t n) {
  constexpr uint32_t infinity = 0x7F800000;
  // Bits minus one: zero becomes the largest number.
  uint32_t least = 0xFFFFFFFF, most = 0;
  const auto take = [&](uint32_t bits) {
    bits &= 0x7FFFFFFF;
    most = bits > most ? bits : most;
    least = bits - 1 < least ? bits - 1 : least;
  };
  const int64_t vector = static_cast<int64_t>(width);
  Magnitudes vector_least = Magnitudes{} - 1, vector_most = {};
  int64_t i = 0;
  for (; i + vector <= n; i += vector) {
    const Magnitudes bits = __builtin_bit_cast(Magnitudes, load(x + i)) & 0x7FFFFFFF;
    vector_most = bits > vector_most ? bits : vector_most;
    vector_least = bits - 1 < vector_least ? bits - 1 : vector_least;
  }
  for (size_t lane = 0; lane < width; ++lane) {
    most = vector_most[lane] > most ? vector_most[lane] : most;
    least = vector_least[lane] < least ? vector_least[lane] : least;
  }
  for (; i < n; ++i) take(__builtin_bit_cast(uint32_t, x[i]));
  if (most >= infinity) return 0;
  return least == 0xFFFFFFFF ? __builtin_inff() : __builtin_bit_cast(float, least + 1);
}

}  // namespace estrain::kernels::ESTRAIN_ISA

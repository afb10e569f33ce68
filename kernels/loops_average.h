#pragma once
// The loop of average.h. Included once by each variant_<isa>.cpp.

#include "kernels/loops.h"
#include "kernels/optimizer_rules.h"

namespace estrain::kernels::ESTRAIN_ISA {

static void average(float* dst, const float* from, const float* values, double weight, size_t n) {
  const Lerp lerp(weight);
  for_vectors(0, n,
              [&](size_t i, auto part) { part.write(dst + i, lerp(part.read(from + i), part.read(values + i))); });
}

}  // namespace estrain::kernels::ESTRAIN_ISA

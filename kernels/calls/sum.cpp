#include "kernels/sum.h"

#include "kernels/loops/sum.h"

namespace estrain::kernels {

void scale(float* dst, const float* src, float factor, size_t n, Isa isa) { sum_loops(isa).scale(dst, src, factor, n); }

void add(float* dst, const float* a, const float* b, size_t n, Isa isa) { sum_loops(isa).add(dst, a, b, n); }

void add_scaled(float* dst, const float* a, const float* src, float factor, size_t n, Isa isa) {
  sum_loops(isa).fold_scaled(dst, &a, 1, src, factor, n);
}

void fold_scaled(float* dst, const float* const* operands, size_t num_operands, const float* src, float factor,
                 size_t n, Isa isa) {
  sum_loops(isa).fold_scaled(dst, operands, num_operands, src, factor, n);
}

void add_zero(float* dst, const float* a, size_t n, Isa isa) { sum_loops(isa).add_zero(dst, a, n); }

}  // namespace estrain::kernels

#include "kernels/portable/fused_multiply_add.h"

#include "kernels/portable/loops/fused_multiply_add.h"

namespace estrain::kernels::portable {

void fused_multiply_add(float* out, const float* a, const float* b, const float* c, size_t n, Isa isa) {
  fused_multiply_add_loops(isa).run(out, a, b, c, n);
}

}  // namespace estrain::kernels::portable

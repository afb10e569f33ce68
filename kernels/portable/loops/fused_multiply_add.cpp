#include "kernels/portable/loops/fused_multiply_add.h"

#include "kernels/loops/walks.h"
#include "kernels/portable/loops/tasks.h"

namespace estrain::kernels::ESTRAIN_ISA {

static void run(float* out, const float* a, const float* b, const float* c, size_t n) {
  for_vectors(0, n, [&](size_t i, auto part) {
    part.write(out + i, fused(part.read(a + i), part.read(b + i), part.read(c + i)));
  });
}

extern const FusedMultiplyAddLoops fused_multiply_add_loops = {run};

}  // namespace estrain::kernels::ESTRAIN_ISA

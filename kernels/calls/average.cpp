#include "kernels/average.h"

#include "kernels/loops/optimizer.h"

namespace estrain::kernels {

void average(float* dst, const float* average, const float* value, size_t n, const Averaging& how) {
  optimizer_loops(how.isa, how.portable).average(dst, average, value, how.weight, n);
}

}  // namespace estrain::kernels

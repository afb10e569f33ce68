#include "kernels/average.h"

#include "kernels/variants.h"

namespace estrain::kernels {

void average(float* dst, const float* average, const float* value, size_t n, const Averaging& how) {
  const Variant& loops = how.portable && how.isa == Isa::baseline ? variant_portable : variant(how.isa);
  loops.average(dst, average, value, how.weight, n);
}

}  // namespace estrain::kernels

// Elementwise functions (kernels/portable/elementwise.h): each thread takes four neighbours.

#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/fours.h"
#include "kernels/portable/loops/elementwise_formulas.h"

namespace estrain::kernels::cuda {
namespace {

using Arguments = ElementwiseArguments;

template <typename Formula, int inputs>
__global__ void apply(Arguments a, bool aligned) {
  const Place place = place_of(a.n, aligned);
  if (place.count <= 0) return;
  Four x[inputs], out;
#pragma unroll
  for (int i = 0; i < inputs; ++i) x[i] = load(a.inputs[i], place);
  const Formula formula(a.numbers);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if constexpr (inputs == 1) out.of[k] = formula(x[0].of[k]);
    if constexpr (inputs == 2) out.of[k] = formula(x[0].of[k], x[1].of[k]);
    if constexpr (inputs == 3) out.of[k] = formula(x[0].of[k], x[1].of[k], x[2].of[k]);
  }
  store(a.out, place, out);
}

__global__ void fill_elements(float* out, int64_t n, float x, bool aligned) {
  const Place place = place_of(n, aligned);
  if (place.count > 0) store(out, place, {x, x, x, x});
}

__global__ void copy_elements(float* out, const float* x, int64_t n, bool aligned) {
  const Place place = place_of(n, aligned);
  if (place.count > 0) store(out, place, load(x, place));
}

template <typename Formula, int inputs>
struct Loop {
  static void run(const Arguments& a, const Execution& execution) {
    const bool aligned =
        are_aligned(a.out, a.inputs[0], inputs > 1 ? a.inputs[1] : nullptr, inputs > 2 ? a.inputs[2] : nullptr);
    launch("elementwise", queue_of(execution), grid_of_fours(a.n), apply<Formula, inputs>, a, aligned);
  }
};

}  // namespace

void fill(float* out, int64_t n, float x, const Execution& execution) {
  launch("fill", queue_of(execution), grid_of_fours(n), fill_elements, out, n, x, are_aligned(out));
}

void copy(float* out, const float* x, int64_t n, const Execution& execution) {
  launch("copy", queue_of(execution), grid_of_fours(n), copy_elements, out, x, n, are_aligned(out, x));
}

extern const ElementwiseLoops elementwise_kernels = table_of<Loop>();

}  // namespace estrain::kernels::cuda

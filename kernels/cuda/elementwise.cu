// Elementwise functions (kernels/portable/elementwise.h): each thread takes four neighbours.

#include <utility>

#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/fours.h"
#include "kernels/portable/elementwise_formulas.h"

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
void run(const Arguments& a, const Execution& execution) {
  const bool aligned =
      are_aligned(a.out, a.inputs[0], inputs > 1 ? a.inputs[1] : nullptr, inputs > 2 ? a.inputs[2] : nullptr);
  launch("elementwise", queue_of(execution), grid_of_fours(a.n), apply<Formula, inputs>, a, aligned);
}
template <typename Formula>
constexpr Elementwise one = run<Formula, 1>;
template <typename Formula>
constexpr Elementwise two = run<Formula, 2>;
template <typename Formula>
constexpr Elementwise three = run<Formula, 3>;

// Tables of formulas' loops, by the numbers of the functions.
template <int... functions, int... backward_functions>
constexpr ElementwiseLoops table_of(std::integer_sequence<int, functions...>,
                                    std::integer_sequence<int, backward_functions...>) {
  return {.unary = {one<UnaryFormula<static_cast<portable::Unary>(functions)>>...},
          .unary_backward = {two<UnaryBackwardFormula<static_cast<portable::UnaryBackward>(backward_functions)>>...},
          .softplus = one<SoftplusFormula>,
          .softplus_backward = two<SoftplusBackward>,
          .elu = one<EluFormula>,
          .elu_backward_of_result = two<EluBackwardOfResult>,
          .elu_backward_of_input = two<EluBackwardOfInput>,
          .add_scaled = two<AddScaled>,
          .add_scaled_number = one<AddScaledNumber>,
          .add_product = three<AddProduct>,
          .add_quotient = three<AddQuotient>,
          .lerp = two<Lerp>,
          .lerp_by_weights = three<Lerp>,
          .power = one<Power>,
          .power_by_exponents = two<Power>};
}

}  // namespace

void fill(float* out, int64_t n, float x, const Execution& execution) {
  launch("fill", queue_of(execution), grid_of_fours(n), fill_elements, out, n, x, are_aligned(out));
}

void copy(float* out, const float* x, int64_t n, const Execution& execution) {
  launch("copy", queue_of(execution), grid_of_fours(n), copy_elements, out, x, n, are_aligned(out, x));
}

extern const ElementwiseLoops elementwise_kernels =
    table_of(std::make_integer_sequence<int, static_cast<int>(portable::Unary::num_functions)>{},
             std::make_integer_sequence<int, static_cast<int>(portable::UnaryBackward::num_functions)>{});

}  // namespace estrain::kernels::cuda

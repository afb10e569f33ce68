#include "kernels/portable/loops/elementwise.h"

#include <utility>

#include "kernels/loops/walks.h"
#include "kernels/portable/elementwise_formulas.h"
#include "kernels/portable/loops/ranges.h"

namespace estrain::kernels::ESTRAIN_ISA {

using Arguments = ElementwiseArguments;

// Fewer elements than this are not worth a second thread.
static constexpr int64_t least_elements = 16384;

// Applies formula(inputs...) to each element.
template <typename Formula>
static void one(const Arguments& arguments, const Execution& execution) {
  const Formula formula(arguments.numbers);
  const Arguments a = arguments;
  for_ranges(execution, a.n, 64, least_elements, [&](int64_t begin, int64_t end) {
    for_vectors(begin, end, [&](size_t i, auto part) { part.write(a.out + i, formula(part.read(a.inputs[0] + i))); });
  });
}
template <typename Formula>
static void two(const Arguments& arguments, const Execution& execution) {
  const Formula formula(arguments.numbers);
  const Arguments a = arguments;
  for_ranges(execution, a.n, 64, least_elements, [&](int64_t begin, int64_t end) {
    for_vectors(begin, end, [&](size_t i, auto part) {
      part.write(a.out + i, formula(part.read(a.inputs[0] + i), part.read(a.inputs[1] + i)));
    });
  });
}
template <typename Formula>
static void three(const Arguments& arguments, const Execution& execution) {
  const Formula formula(arguments.numbers);
  const Arguments a = arguments;
  for_ranges(execution, a.n, 64, least_elements, [&](int64_t begin, int64_t end) {
    for_vectors(begin, end, [&](size_t i, auto part) {
      part.write(a.out + i,
                 formula(part.read(a.inputs[0] + i), part.read(a.inputs[1] + i), part.read(a.inputs[2] + i)));
    });
  });
}

// Tables of formulas' loops, by the numbers of the functions.
template <int... functions, int... backward_functions>
static constexpr ElementwiseLoops table_of(std::integer_sequence<int, functions...>,
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

extern const ElementwiseLoops elementwise_loops =
    table_of(std::make_integer_sequence<int, static_cast<int>(portable::Unary::num_functions)>{},
             std::make_integer_sequence<int, static_cast<int>(portable::UnaryBackward::num_functions)>{});

}  // namespace estrain::kernels::ESTRAIN_ISA

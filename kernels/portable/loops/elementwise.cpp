#include "kernels/portable/loops/elementwise.h"

#include "kernels/loops.h"
#include "kernels/portable/arithmetic/formulas.h"
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

extern const ElementwiseLoops elementwise_loops = {
    {one<Exp>,       one<Log>,     one<Log1p>,   one<Expm1>,         one<Sqrt>,      one<Rsqrt>,      one<Reciprocal>,
     one<Tanh>,      one<Sigmoid>, one<Silu>,    one<Gelu>,          one<GeluTanh>,  one<Erf>,        one<Sine>,
     one<Cosine>,    one<Square>,  one<Cube>,    one<InverseSquare>, one<Log2>,      one<LogSigmoid>, one<Hardsigmoid>,
     one<Hardswish>, one<Mish>,    one<Tangent>, one<ArcSine>,       one<ArcCosine>, one<ArcTangent>, one<Sinh>,
     one<Cosh>,      one<Asinh>,   one<Acosh>,   one<Atanh>},
    {two<TanhBackward>, two<SigmoidBackward>, two<SiluBackward>, two<GeluBackward>, two<GeluTanhBackward>,
     two<LogSigmoidBackward>, two<HardsigmoidBackward>, two<HardswishBackward>, two<MishBackward>},
    one<SoftplusFormula>,
    two<SoftplusBackward>,
    one<EluFormula>,
    two<EluBackwardOfResult>,
    two<EluBackwardOfInput>,
    two<AddScaled>,
    one<AddScaledNumber>,
    three<AddProduct>,
    three<AddQuotient>,
    two<Lerp>,
    three<Lerp>,
    one<Power>,
    two<Power>};

}  // namespace estrain::kernels::ESTRAIN_ISA

// Functions of one element at a time (kernels/portable/elementwise.h): a thread takes four elements of its block's
// stretch, kThreads apart, so that a warp's accesses lie side by side.

#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/families.h"
#include "kernels/portable/arithmetic/formulas.h"

namespace estrain::kernels::cuda {
namespace {

using Arguments = ElementwiseArguments;

constexpr int kPerThread = 4;
constexpr int64_t kStretch = int64_t{kThreads} * kPerThread;

// body(i) for this thread's elements of [0, n).
template <typename Body>
__device__ void for_elements(int64_t n, Body body) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kStretch + threadIdx.x;
#pragma unroll
  for (int e = 0; e < kPerThread; ++e) {
    const int64_t i = first + e * static_cast<int64_t>(kThreads);
    if (i < n) body(i);
  }
}

template <typename Formula, int inputs>
__global__ void apply(Arguments a) {
  const Formula formula(a.numbers);
  for_elements(a.n, [&](int64_t i) {
    if constexpr (inputs == 1) a.out[i] = formula(a.inputs[0][i]);
    if constexpr (inputs == 2) a.out[i] = formula(a.inputs[0][i], a.inputs[1][i]);
    if constexpr (inputs == 3) a.out[i] = formula(a.inputs[0][i], a.inputs[1][i], a.inputs[2][i]);
  });
}

__global__ void fill_elements(float* out, int64_t n, float x) {
  for_elements(n, [&](int64_t i) { out[i] = x; });
}

__global__ void copy_elements(float* out, const float* x, int64_t n) {
  for_elements(n, [&](int64_t i) { out[i] = x[i]; });
}

Grid grid_of_stretches(int64_t n) { return {(n + kStretch - 1) / kStretch}; }

template <typename Formula, int inputs>
void run(const Arguments& a, const Execution& execution) {
  launch("elementwise", queue_of(execution), grid_of_stretches(a.n), apply<Formula, inputs>, a);
}
template <typename Formula>
constexpr Elementwise one = run<Formula, 1>;
template <typename Formula>
constexpr Elementwise two = run<Formula, 2>;
template <typename Formula>
constexpr Elementwise three = run<Formula, 3>;

}  // namespace

void fill(float* out, int64_t n, float x, const Execution& execution) {
  launch("fill", queue_of(execution), grid_of_stretches(n), fill_elements, out, n, x);
}

void copy(float* out, const float* x, int64_t n, const Execution& execution) {
  launch("copy", queue_of(execution), grid_of_stretches(n), copy_elements, out, x, n);
}

extern const ElementwiseLoops elementwise_kernels = {
    {one<Exp>, one<Log>, one<Log1p>, one<Expm1>, one<Sqrt>, one<Rsqrt>, one<Reciprocal>, one<Tanh>, one<Sigmoid>,
     one<Silu>, one<Gelu>, one<GeluTanh>, one<Erf>, one<Sine>, one<Cosine>, one<Square>, one<Cube>, one<InverseSquare>},
    {two<TanhBackward>, two<SigmoidBackward>, two<SiluBackward>, two<GeluBackward>, two<GeluTanhBackward>},
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

}  // namespace estrain::kernels::cuda

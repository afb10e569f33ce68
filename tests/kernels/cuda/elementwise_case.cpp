#include "kernels/portable/elementwise.h"
#include "tests/kernels/cuda/families.h"
#include "tests/kernels/cuda/twin.h"

namespace estrain::kernels::test {

using namespace portable;

std::string elementwise_case(uint32_t seed) {
  Draw draw(seed);
  const int64_t n = draw.one_of<int64_t>({0, 1, 255, 1024, 1025, draw.integer(1, 5000)});
  const int64_t shift = draw.chance(25) ? draw.integer(1, 3) : 0;  // aligned for reads of 16 bytes
  Twin<float> a(draw.floats(n + shift)), b(draw.floats(n)), c(draw.floats(n)), out(Draw::blank(n + shift));
  constexpr int functions = 32, backwards = 9;
  const int which = static_cast<int>(seed % (functions + backwards + 13));
  const float x = draw.floats(1)[0], y = draw.normal(1)[0];
  const auto both = [&](auto call) {
    call(out.here() + shift, a.here() + shift, b.here(), c.here(), on_cpu());
    call(out.there() + shift, a.there() + shift, b.there(), c.there(), on_device());
  };
  both([&](float* o, const float* p, const float* q, const float* r, const Execution& e) {
    const int other = which - functions - backwards;
    const Elu elu_options = {1.5f, 0.75f, y, other == 4};
    if (which < functions) return unary(static_cast<Unary>(which), o, p, n, e);
    if (other < 0) return unary_backward(static_cast<UnaryBackward>(which - functions), o, p, q, n, e);
    if (other == 0) return softplus(o, p, n, {y, 2}, e);
    if (other == 1) return softplus_backward(o, p, q, n, {y, 2}, e);
    if (other == 2) return elu(o, p, n, elu_options, e);
    if (other <= 4) return elu_backward(o, p, q, n, elu_options, e);
    if (other == 5) return add_scaled(o, p, q, x, n, e);
    if (other == 6) return add_scaled_number(o, p, x, y, n, e);
    if (other == 7) return add_product(o, p, q, r, x, n, e);
    if (other == 8) return add_quotient(o, p, q, r, x, n, e);
    if (other == 9) return lerp(o, p, q, y, n, e);
    if (other == 10) return lerp(o, p, q, r, n, e);
    if (other == 11) return power(o, p, q, n, e);
    const float exponents[] = {0.5f, -0.5f, -1, 2, 3, -2, 1, 0, 2.5f, x};
    power(o, p, exponents[seed / 45 % 10], n, e);
  });
  return report(out.difference("out"), shape_of("function, n", which, n));
}

}  // namespace estrain::kernels::test

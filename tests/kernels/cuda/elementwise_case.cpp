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
  const int which = static_cast<int>(seed % 36);
  const float x = draw.floats(1)[0], y = draw.normal(1)[0];
  const auto both = [&](auto call) {
    call(out.here() + shift, a.here() + shift, b.here(), c.here(), on_cpu());
    call(out.there() + shift, a.there() + shift, b.there(), c.there(), on_device());
  };
  both([&](float* o, const float* p, const float* q, const float* r, const Execution& e) {
    const Elu elu_options = {1.5f, 0.75f, y, which == 27};
    if (which < 18) return unary(static_cast<Unary>(which), o, p, n, e);
    if (which < 23) return unary_backward(static_cast<UnaryBackward>(which - 18), o, p, q, n, e);
    if (which == 23) return softplus(o, p, n, {y, 2}, e);
    if (which == 24) return softplus_backward(o, p, q, n, {y, 2}, e);
    if (which == 25) return elu(o, p, n, elu_options, e);
    if (which <= 27) return elu_backward(o, p, q, n, elu_options, e);
    if (which == 28) return add_scaled(o, p, q, x, n, e);
    if (which == 29) return add_scaled_number(o, p, x, y, n, e);
    if (which == 30) return add_product(o, p, q, r, x, n, e);
    if (which == 31) return add_quotient(o, p, q, r, x, n, e);
    if (which == 32) return lerp(o, p, q, y, n, e);
    if (which == 33) return lerp(o, p, q, r, n, e);
    if (which == 34) return power(o, p, q, n, e);
    const float exponents[] = {0.5f, -0.5f, -1, 2, 3, -2, 1, 0, 2.5f, x};
    power(o, p, exponents[seed / 36 % 10], n, e);
  });
  return report(out.difference("out"), shape_of("function, n", which, n));
}

}  // namespace estrain::kernels::test

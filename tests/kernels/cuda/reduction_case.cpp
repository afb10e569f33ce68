#include "kernels/portable/cross_entropy.h"
#include "kernels/portable/reduction.h"
#include "kernels/portable/softmax.h"
#include "tests/kernels/cuda/families.h"
#include "tests/kernels/cuda/twin.h"

namespace estrain::kernels::test {

using namespace portable;

std::string reduction_case(uint32_t seed) {
  Draw draw(seed);
  Reduced s;
  s.inner = draw.chance(50) ? 1 : draw.integer(2, 70);
  s.outer = draw.integer(1, 5);
  s.reduced = draw.one_of<int64_t>(
      {0, 1, 31, 33, 256, 257, draw.integer(1, 1000), s.inner == 1 ? draw.integer(4000, 13000) : 700});
  if (draw.chance(10)) s.outer = 1, s.inner = s.inner == 1 ? 1 : 2, s.reduced = draw.integer(9000, 40000);
  const int64_t outputs = s.outer * s.inner;
  Twin<float> x(draw.floats(outputs * s.reduced)), out(Draw::blank(outputs)), means(Draw::blank(outputs));
  const int which = static_cast<int>(seed % 6);
  const VarianceOptions options = {draw.one_of<float>({0, 1}), draw.chance(50)};
  const auto call = [&](float* o, float* m, const float* in, const Execution& e) {
    if (which == 0) return sum(o, in, s, e);
    if (which == 1) return mean(o, in, s, e);
    if (which == 2) return sum_of_squares(o, in, s, e);
    if (which == 3) return l2_norm(o, in, s, e);
    variance(o, which == 4 ? m : nullptr, in, s, options, e);
  };
  call(out.here(), means.here(), x.here(), on_cpu());
  call(out.there(), means.there(), x.there(), on_device());
  return report(out.difference("out") + means.difference("means"),
                shape_of("function, outer, reduced, inner", which, s.outer, s.reduced, s.inner));
}

std::string softmax_case(uint32_t seed) {
  Draw draw(seed);
  SoftmaxShape s;
  s.inner = draw.chance(60) ? 1 : draw.integer(2, 40);
  s.outer = draw.integer(0, 6);
  s.dim = draw.one_of<int64_t>({1, 10, 32, draw.integer(1, 700), s.inner == 1 ? draw.integer(4090, 20000) : 300});
  const int64_t n = s.outer * s.dim * s.inner;
  const int which = static_cast<int>(seed % 4);
  std::vector<float> values = draw.floats(n);
  for (float& value : values) value = which == 3 && value > 0 ? -value : value;  // logarithms of probabilities
  Twin<float> x(values), g(draw.floats(n)), out(Draw::blank(n));
  const bool in_place = draw.chance(25);
  const auto call = [&](float* o, float* in, const float* gradient, const Execution& e) {
    if (in_place) o = in;
    if (which == 0) return softmax(o, in, s, e);
    if (which == 1) return log_softmax(o, in, s, e);
    (which == 2 ? softmax_backward : log_softmax_backward)(o, gradient, in, s, e);
  };
  call(out.here(), x.here(), g.here(), on_cpu());
  call(out.there(), x.there(), g.there(), on_device());
  return report(out.difference("out") + x.difference("in place"),
                shape_of("function, outer, dim, inner", which, s.outer, s.dim, s.inner));
}

std::string cross_entropy_case(uint32_t seed) {
  Draw draw(seed);
  NllLoss loss;
  loss.rows = draw.one_of<int64_t>({0, 1, 64, draw.integer(1, 300), 5000});
  loss.classes = draw.integer(1, loss.rows > 1000 ? 4 : 40);
  loss.reduction = draw.one_of({LossReduction::none, LossReduction::mean, LossReduction::sum});
  loss.ignore_index = draw.one_of<int64_t>({-100, 0});
  const int64_t outputs = loss.reduction == LossReduction::none ? loss.rows : 1, n = loss.rows * loss.classes;
  Twin<int64_t> targets(draw.integers(loss.rows, 0, loss.classes - 1));
  const int64_t shift = draw.chance(25) ? draw.integer(1, 3) : 0;  // aligned for writes of 16 bytes
  Twin<float> weights(draw.positive(loss.classes)), x(draw.floats(n)), gradient(draw.floats(outputs));
  Twin<float> out(Draw::blank(outputs)), total(Draw::blank(1)), dx(Draw::blank(n + shift));
  const bool weighted = draw.chance(50), by_pointer = draw.chance(50);
  const auto call = [&](NllLoss l, float* o, float* t, float* d, const float* in, const float* g, const Execution& e) {
    nll_loss(o, t, in, l, e);
    if (by_pointer) return nll_loss_backward(d, g, t, l, e);
    nll_loss_backward(d, g, 3.25f, l, e);
  };
  loss.targets = targets.here();
  loss.weights = weighted ? weights.here() : nullptr;
  call(loss, out.here(), total.here(), dx.here() + shift, x.here(), gradient.here(), on_cpu());
  loss.targets = targets.there();
  loss.weights = weighted ? weights.there() : nullptr;
  call(loss, out.there(), total.there(), dx.there() + shift, x.there(), gradient.there(), on_device());
  return report(out.difference("loss") + total.difference("total_weight") + dx.difference("dx"),
                shape_of("rows, classes, reduction", loss.rows, loss.classes, static_cast<int>(loss.reduction)));
}

}  // namespace estrain::kernels::test

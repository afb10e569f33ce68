#include "kernels/portable/batch_norm.h"
#include "kernels/portable/layer_norm.h"
#include "tests/kernels/cuda/families.h"
#include "tests/kernels/cuda/twin.h"

namespace estrain::kernels::test {

using namespace portable;

namespace {

float* or_null(bool wanted, float* x) { return wanted ? x : nullptr; }

}  // namespace

std::string batch_norm_case(uint32_t seed) {
  Draw draw(seed);
  BatchNormShape s;
  s.hw = draw.one_of<int64_t>({1, 1, 31, 32, 33, draw.integer(2, 200), draw.integer(1, 30), draw.integer(4000, 9000)});
  s.channels = draw.integer(1, 6);
  s.n = draw.integer(1, s.hw > 1000 ? 3 : 40);
  if (s.hw == 1 && draw.chance(10)) s.n = 4500;
  if (s.hw == 31 && draw.chance(40)) s.hw = 2049, s.channels = 2, s.n = 270;  // many blocks of one image each
  const int64_t shift = draw.chance(25) ? draw.integer(1, 3) : 0;             // aligned for reads of 16 bytes
  const int64_t n = s.n * s.channels * s.hw + shift, c = s.channels;
  Twin<float> x(draw.floats(n)), dy(draw.floats(n)), weight(draw.normal(c)), bias(draw.normal(c));
  Twin<float> y(Draw::blank(n)), mean(draw.normal(c)), invstd(draw.positive(c));
  Twin<float> running_mean(draw.normal(c)), running_var(draw.positive(c));
  Twin<float> dx(Draw::blank(n)), dweight(Draw::blank(c)), dbias(Draw::blank(c));
  const bool has_weight = draw.chance(70), has_bias = draw.chance(70), keeps = draw.chance(70);
  const bool wants_x = draw.chance(80), wants_weight = draw.chance(70), wants_bias = draw.chance(70);
  const int which = static_cast<int>(seed % 4);
  const auto call = [&](auto at, const Execution& e) {
    const BatchNormParameters parameters = {or_null(has_weight, at(weight)), or_null(has_bias, at(bias)), 1e-5};
    const float *const from = at(x) + shift, *const gradient = at(dy) + shift;
    const BatchNormGradients out = {or_null(wants_x, at(dx) + shift), or_null(wants_weight, at(dweight)),
                                    or_null(wants_bias, at(dbias))};
    const BatchNormRunning running = {or_null(keeps, at(running_mean)), or_null(keeps, at(running_var)), 0.1};
    if (which == 0) return batch_norm_train(at(y) + shift, at(mean), at(invstd), from, s, parameters, running, e);
    if (which == 1) return batch_norm_eval(at(y) + shift, from, s, parameters, at(running_mean), at(running_var), e);
    if (which == 2) {
      return batch_norm_train_backward(out, gradient, from, s, parameters.weight, at(mean), at(invstd), e);
    }
    batch_norm_eval_backward(out, gradient, from, s, parameters.weight, at(running_mean), at(running_var), 1e-5, e);
  };
  call([](Twin<float>& twin) { return twin.here(); }, on_cpu());
  call([](Twin<float>& twin) { return twin.there(); }, on_device());
  return report(y.difference("y") + mean.difference("mean") + invstd.difference("invstd") +
                    running_mean.difference("running_mean") + running_var.difference("running_var") +
                    dx.difference("dx") + dweight.difference("dweight") + dbias.difference("dbias"),
                shape_of("function, n, channels, hw", which, s.n, s.channels, s.hw));
}

std::string layer_norm_case(uint32_t seed) {
  Draw draw(seed);
  LayerNormShape s;
  s.d = draw.one_of<int64_t>({1, 32, 33, draw.integer(1, 800), draw.integer(4090, 9000)});
  s.rows = draw.integer(0, s.d > 1000 ? 4 : 140);
  if (s.d == 1 && draw.chance(30)) s.rows = 2200;
  const int64_t n = s.rows * s.d;
  Twin<float> x(draw.floats(n)), dy(draw.floats(n)), gamma(draw.normal(s.d)), beta(draw.normal(s.d));
  Twin<float> y(Draw::blank(n)), mean(draw.normal(s.rows)), rstd(draw.positive(s.rows));
  Twin<float> dx(Draw::blank(n)), dgamma(Draw::blank(s.d)), dbeta(Draw::blank(s.d));
  const bool has_gamma = draw.chance(70), has_beta = draw.chance(70), in_place = draw.chance(30);
  const bool wants_x = draw.chance(80), wants_gamma = draw.chance(70), wants_beta = draw.chance(70);
  const bool forward = seed % 2 == 0;
  const auto call = [&](auto at, const Execution& e) {
    const LayerNormParameters parameters = {or_null(has_gamma, at(gamma)), or_null(has_beta, at(beta)), 1e-5};
    if (forward) return layer_norm(in_place ? at(x) : at(y), at(mean), at(rstd), at(x), s, parameters, e);
    const LayerNormGradients out = {or_null(wants_x, in_place ? at(dy) : at(dx)), or_null(wants_gamma, at(dgamma)),
                                    or_null(wants_beta, at(dbeta))};
    layer_norm_backward(out, at(dy), at(x), s, parameters.gamma, at(mean), at(rstd), e);
  };
  call([](Twin<float>& twin) { return twin.here(); }, on_cpu());
  call([](Twin<float>& twin) { return twin.there(); }, on_device());
  return report(y.difference("y") + mean.difference("mean") + rstd.difference("rstd") + dx.difference("dx") +
                    x.difference("x") + dy.difference("dy") + dgamma.difference("dgamma") + dbeta.difference("dbeta"),
                shape_of("forward, rows, d", forward, s.rows, s.d));
}

}  // namespace estrain::kernels::test

#include "kernels/portable/embedding.h"
#include "kernels/portable/pooling.h"
#include "kernels/portable/upsample.h"
#include "tests/kernels/cuda/families.h"
#include "tests/kernels/cuda/twin.h"

namespace estrain::kernels::test {

using namespace portable;

namespace {

PoolingShape drawn_pooling(Draw& draw, bool dilated) {
  PoolingShape s;
  s.planes = draw.integer(0, 9);
  s.kernel_height = draw.integer(1, 4);
  s.kernel_width = draw.integer(1, 4);
  s.stride_height = draw.integer(1, 3);
  s.stride_width = draw.integer(1, 3);
  s.padding_height = draw.integer(0, s.kernel_height / 2);
  s.padding_width = draw.integer(0, s.kernel_width / 2);
  if (dilated) s.dilation_height = draw.integer(1, 2), s.dilation_width = draw.integer(1, 2);
  s.height = (s.kernel_height - 1) * s.dilation_height + draw.integer(1, 12);
  s.width = (s.kernel_width - 1) * s.dilation_width + draw.integer(1, 12);
  const bool up = draw.chance(30);
  const auto output = [&](int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
    const int64_t span = size + 2 * padding - dilation * (kernel - 1) - 1 + (up ? stride - 1 : 0);
    const int64_t out = span / stride + 1;
    return up && (out - 1) * stride >= size + padding ? out - 1 : out;
  };
  s.output_height = output(s.height, s.kernel_height, s.stride_height, s.padding_height, s.dilation_height);
  s.output_width = output(s.width, s.kernel_width, s.stride_width, s.padding_width, s.dilation_width);
  s.count_include_pad = draw.chance(50);
  s.divisor_override = draw.chance(25) ? draw.integer(1, 7) : 0;
  return s;
}

}  // namespace

std::string pooling_case(uint32_t seed) {
  Draw draw(seed);
  const int which = static_cast<int>(seed % 8);
  const PoolingShape s = drawn_pooling(draw, which == 0 || which == 3);
  AdaptivePoolingShape a = {s.planes, s.height, s.width, s.output_height, s.output_width};
  if (which >= 4) a.output_height = draw.integer(1, s.height + 2), a.output_width = draw.integer(1, s.width + 2);
  const int64_t in = s.planes * s.height * s.width, out = a.planes * a.output_height * a.output_width;
  Twin<float> x(draw.floats(in)), dy(draw.floats(out)), y(Draw::blank(out)), dx(Draw::blank(in));
  std::vector<float> maxima(static_cast<size_t>(out));
  std::vector<int64_t> places(static_cast<size_t>(out), -1);
  if (which == 3) max_pool(maxima.data(), places.data(), x.here(), s);
  if (which == 7) adaptive_max_pool(maxima.data(), places.data(), x.here(), a);
  Twin<int64_t> indices(places);
  const auto call = [&](auto at, int64_t* chosen, const Execution& e) {
    if (which == 0) return max_pool(at(y), chosen, at(x), s, e);
    if (which == 1) return average_pool(at(y), at(x), s, e);
    if (which == 2) return average_pool_backward(at(dx), at(dy), s, e);
    if (which == 3) return max_pool_backward(at(dx), at(dy), chosen, s, e);
    if (which == 4) return adaptive_average_pool(at(y), at(x), a, e);
    if (which == 5) return adaptive_average_pool_backward(at(dx), at(dy), a, e);
    if (which == 6) return adaptive_max_pool(at(y), chosen, at(x), a, e);
    adaptive_max_pool_backward(at(dx), at(dy), chosen, a, e);
  };
  call([](Twin<float>& twin) { return twin.here(); }, indices.here(), on_cpu());
  call([](Twin<float>& twin) { return twin.there(); }, indices.there(), on_device());
  return report(y.difference("y") + dx.difference("dx") + indices.difference("indices"),
                shape_of("function, planes, height, width, output height and width, kernel, stride, padding", which,
                         s.planes, s.height, s.width, a.output_height, a.output_width, s.kernel_height, s.kernel_width,
                         s.stride_height, s.stride_width, s.padding_height, s.padding_width));
}

std::string upsample_case(uint32_t seed) {
  Draw draw(seed);
  UpsampleShape s;
  s.planes = draw.integer(0, 5);
  s.height = draw.integer(1, 12);
  s.width = draw.integer(1, 12);
  const bool doubled = draw.chance(30), factors = draw.chance(30);
  s.output_height = doubled ? 2 * s.height : draw.integer(1, 30);
  s.output_width = doubled ? 2 * s.width : draw.integer(1, 30);
  if (factors) s.factor_height = 1.9, s.factor_width = 0.7;
  if (factors) s.output_height = static_cast<int64_t>(1.9 * static_cast<double>(s.height));
  if (factors) s.output_width = std::max<int64_t>(1, static_cast<int64_t>(0.7 * static_cast<double>(s.width)));
  s.align_corners = draw.chance(50);
  const int64_t in = s.planes * s.height * s.width, out = s.planes * s.output_height * s.output_width;
  Twin<float> x(draw.floats(in)), dy(draw.floats(out)), y(Draw::blank(out)), dx(Draw::blank(in));
  const int which = static_cast<int>(seed % 4);
  const auto call = [&](auto at, const Execution& e) {
    if (which == 0) return upsample_nearest(at(y), at(x), s, e);
    if (which == 1) return upsample_nearest_backward(at(dx), at(dy), s, e);
    if (which == 2) return upsample_bilinear(at(y), at(x), s, e);
    upsample_bilinear_backward(at(dx), at(dy), s, e);
  };
  call([](Twin<float>& twin) { return twin.here(); }, on_cpu());
  call([](Twin<float>& twin) { return twin.there(); }, on_device());
  return report(y.difference("y") + dx.difference("dx"),
                shape_of("function, planes, height, width, output", which, s.planes, s.height, s.width, s.output_height,
                         s.output_width));
}

std::string embedding_case(uint32_t seed) {
  Draw draw(seed);
  EmbeddingShape s;
  s.vocabulary = draw.one_of<int64_t>({1, 7, draw.integer(1, 600)});
  s.d = draw.one_of<int64_t>({1, 32, draw.integer(1, 300)});
  s.n = draw.one_of<int64_t>({0, 1, draw.integer(1, 200), 1500});
  if (draw.chance(10)) s.vocabulary = 20000, s.d = draw.integer(1, 3);
  s.padding_index = draw.chance(30) ? draw.integer(0, s.vocabulary - 1) : -1;
  s.scale_by_frequency = draw.chance(40);
  Twin<float> dy(draw.floats(s.n * s.d)), dweight(Draw::blank(s.vocabulary * s.d));
  Twin<int64_t> indices(draw.integers(s.n, -1, s.vocabulary));
  embedding_backward(dweight.here(), dy.here(), indices.here(), s, on_cpu());
  embedding_backward(dweight.there(), dy.there(), indices.there(), s, on_device());
  return report(dweight.difference("dweight"), shape_of("vocabulary, d, n", s.vocabulary, s.d, s.n));
}

}  // namespace estrain::kernels::test

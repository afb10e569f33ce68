#include "kernels/portable/convolution.h"
#include "tests/kernels/cuda/families.h"
#include "tests/kernels/cuda/twin.h"

namespace estrain::kernels::test {

using namespace portable;

std::string convolution_case(uint32_t seed) {
  Draw draw(seed);
  Convolution s;
  const bool depthwise = draw.chance(20), wide = draw.chance(30), stretched = draw.chance(20);
  s.groups = depthwise ? draw.integer(2, 6) : draw.one_of<int64_t>({1, 1, 1, 2, 3});
  s.channels_in = depthwise ? s.groups : s.groups * draw.integer(1, wide ? 20 : 4);
  s.channels_out = s.groups * draw.integer(1, wide ? 40 : depthwise ? 2 : 7);
  s.filter_height = stretched ? 1 : draw.one_of<int64_t>({1, 3, draw.integer(1, 5)});
  s.filter_width = stretched ? draw.integer(1, 300) : draw.one_of<int64_t>({1, 3, draw.integer(1, 5)});
  s.stride_height = draw.one_of<int64_t>({1, 1, 2, 3});
  s.stride_width = draw.one_of<int64_t>({1, 1, 2, 3});
  s.padding_height = draw.integer(0, 3);
  s.padding_width = draw.integer(0, 3);
  s.dilation_height = draw.one_of<int64_t>({1, 1, 2});
  s.dilation_width = draw.one_of<int64_t>({1, 1, 2});
  s.batch = draw.integer(0, 4);
  s.height = stretched ? 1 : draw.integer(1, 14);
  s.width = stretched ? draw.integer(1, 40) : draw.integer(1, 14);
  if (seed % 8 == 0) {  // large enough for large tiles and split sums
    const int64_t filter = draw.one_of<int64_t>({1, 1, 3, 4});
    s.groups = 1;
    s.channels_in = filter == 1 ? draw.integer(60, 300) : draw.integer(20, 33);
    s.channels_out = draw.one_of<int64_t>({30, 64, 128, 130});
    s.filter_height = s.filter_width = filter;
    s.padding_height = s.padding_width = filter / 2;
    s.dilation_height = s.dilation_width = 1;
    s.stride_height = s.stride_width = draw.one_of<int64_t>({1, 1, 1, 2});
    s.batch = draw.integer(2, 4);
    s.height = draw.one_of<int64_t>({7, 8, 12, 13});
    s.width = draw.one_of<int64_t>({7, 8, 12, 13});
  }
  const int64_t in = s.batch * s.channels_in * s.height * s.width;
  const int64_t out = s.batch * s.channels_out * s.output_height() * s.output_width();
  const int64_t filters = s.channels_out * s.channels_in / s.groups * s.filter_height * s.filter_width;
  Twin<float> x(draw.floats(in)), w(draw.floats(filters)), dy(draw.floats(out)), bias(draw.normal(s.channels_out));
  Twin<float> y(Draw::blank(out)), dx(Draw::blank(in)), dw(Draw::blank(filters)), db(Draw::blank(s.channels_out));
  const bool has_bias = draw.chance(50);
  const auto call = [&](auto at, const Execution& e) {
    convolution_forward(s, at(x), at(w), has_bias ? at(bias) : nullptr, at(y), e);
    convolution_backward_data(s, at(dy), at(w), at(dx), e);
    convolution_backward_filter(s, at(x), at(dy), at(dw), e);
    convolution_backward_bias(s, at(dy), at(db), e);
  };
  call([](Twin<float>& twin) { return twin.here(); }, on_cpu());
  const int layout = draw.chance(40) ? 0 : static_cast<int>(draw.integer(1, kLayouts - 1));
  call([](Twin<float>& twin) { return twin.there(); }, on_device(layout));
  return report(
      y.difference("y") + dx.difference("dx") + dw.difference("dw") + db.difference("db"),
      shape_of("batch, channels in and out, groups, image, filter, stride, padding, dilation", s.batch, s.channels_in,
               s.channels_out, s.groups, s.height, s.width, s.filter_height, s.filter_width, s.stride_height,
               s.stride_width, s.padding_height, s.padding_width, s.dilation_height, s.dilation_width));
}

}  // namespace estrain::kernels::test

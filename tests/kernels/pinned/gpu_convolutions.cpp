#include <cmath>

#include "kernels/pinned/convolution.h"
#include "kernels/pinned/fields.h"
#include "tests/kernels/cuda/twin.h"
#include "tests/kernels/pinned/pinned_checks.h"
#include "tests/kernels/pinned/pinned_trial.h"

namespace estrain::kernels::test {
namespace {

using pinned::ConvolutionProblem;
using pinned::Element;
using pinned::Math;
using pinned::Pass;

ConvolutionProblem drawn_convolution(Draw& draw) {
  ConvolutionProblem c;
  do {
    c.pass = draw.one_of({Pass::forward, Pass::data, Pass::filter});
    c.element = draw.chance(40) ? Element::bf16 : Element::f32;
    c.math = c.element == Element::f32 && draw.chance(30) ? Math::tf32 : Math::exact;
    c.groups = draw.one_of<int64_t>({1, 1, 1, 2, 4, 8});
    c.batch = draw.integer(1, 4);
    c.channels_in = c.groups * draw.one_of<int64_t>({1, 2, 3, 4});
    c.channels_out = c.groups * draw.one_of<int64_t>({1, 2, 4, 5});
    if (c.groups == 1 && draw.chance(50)) c.channels_in = 16, c.channels_out = 32;
    c.height.size = draw.chance(20) ? 1 : draw.integer(3, 20);
    c.width.size = draw.integer(3, 20);
    c.height.filter = c.height.size == 1 ? 1 : draw.one_of<int64_t>({1, 3, draw.integer(1, 5)});
    c.width.filter = draw.one_of<int64_t>({1, 3, draw.integer(1, 5)});
    c.height.stride = c.height.size == 1 ? 1 : draw.integer(1, 2);
    c.width.stride = draw.integer(1, 2);
    c.height.padding = c.height.size == 1 ? 0 : draw.integer(0, 2);
    c.width.padding = draw.integer(0, 2);
    c.height.dilation = c.height.size == 1 || draw.chance(80) ? 1 : 2;
    c.width.dilation = draw.chance(80) ? 1 : 2;
    c.depth = {};
    if (draw.chance(20))
      c.depth = {draw.integer(2, 6), draw.integer(1, 3), draw.integer(1, 2), draw.integer(0, 1), draw.integer(1, 2)};
  } while (c.depth.output() < 1 || c.height.output() < 1 || c.width.output() < 1);
  return c;
}

// A place in the output and a tap of the filter that meet in a place of the image, all as numbers in their planes.
struct Meeting {
  int64_t x, w, y;
};

// Returns the meetings of the axes before, joined with the meetings along one more axis.
std::vector<Meeting> joined(const std::vector<Meeting>& before, const pinned::ConvolutionExtent& axis) {
  std::vector<Meeting> all;
  for (const Meeting& at : before) {
    for (int64_t p = 0; p < axis.output(); ++p) {
      for (int64_t r = 0; r < axis.filter; ++r) {
        const int64_t x = p * axis.stride - axis.padding + r * axis.dilation;
        if (x < 0 || x >= axis.size) continue;
        all.push_back({at.x * axis.size + x, at.w * axis.filter + r, at.y * axis.output() + p});
      }
    }
  }
  return all;
}

// The numbers of places in a plane.
struct Planes {
  int64_t image = 1, filter = 1, output = 1;

  explicit Planes(const ConvolutionProblem& c) {
    for (const pinned::ConvolutionExtent& axis : c.axes())
      image *= axis.size, filter *= axis.filter, output *= axis.output();
  }
};

// Calls `visit` with the positions of every product's three operands, in image, filter and output.
template <typename Visit>
void for_each_product(const ConvolutionProblem& c, Visit visit) {
  const int64_t in_group = c.channels_in / c.groups, out_group = c.channels_out / c.groups;
  const Planes planes(c);
  std::vector<Meeting> meetings = {{0, 0, 0}};
  for (const pinned::ConvolutionExtent& axis : c.axes()) meetings = joined(meetings, axis);
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t k = 0; k < c.channels_out; ++k)
      for (int64_t i = 0; i < in_group; ++i)
        for (const Meeting& at : meetings) {
          const int64_t channel = k / out_group * in_group + i;
          visit((n * c.channels_in + channel) * planes.image + at.x, (k * in_group + i) * planes.filter + at.w,
                (n * c.channels_out + k) * planes.output + at.y);
        }
}

}  // namespace

void check_convolution(uint32_t seed, PinnedOutcome& outcome) {
  static const pinned::Convolutions library;
  Draw draw(seed);
  const ConvolutionProblem c = drawn_convolution(draw);
  const Planes planes(c);
  const int64_t image = c.batch * c.channels_in * planes.image, output = c.batch * c.channels_out * planes.output;
  const int64_t filter = c.channels_out * (c.channels_in / c.groups) * planes.filter;
  // Magnitudes that TF32 can represent and half precision cannot.
  const bool tf32 = c.math == Math::tf32;
  const auto values = [&](int64_t count, int exponent) {
    std::vector<float> drawn = draw.normal(count);
    for (float& value : drawn) value = std::ldexp(value, tf32 ? exponent : 0);
    return Values(std::move(drawn), c.element);
  };
  const Values x = values(image, -30), w = values(filter, 20), y = values(output, -30);
  Expected expected = {{}, c.element, c.math};
  const int64_t results = c.pass == Pass::forward ? output : c.pass == Pass::data ? image : filter;
  expected.sums.resize(static_cast<size_t>(results));
  for_each_product(c, [&](int64_t at_x, int64_t at_w, int64_t at_y) {
    if (c.pass == Pass::forward) expected.sums[static_cast<size_t>(at_y)].add(x[at_x] * w[at_w]);
    if (c.pass == Pass::data) expected.sums[static_cast<size_t>(at_x)].add(y[at_y] * w[at_w]);
    if (c.pass == Pass::filter) expected.sums[static_cast<size_t>(at_w)].add(y[at_y] * x[at_x]);
  });
  Tally tally;
  const std::string fault = try_candidates<pinned::ConvolutionPlan>(
      library, c, expected, &tally, [&](pinned::ConvolutionPlan& plan, void* out, void* workspace) {
        plan.run({c.pass == Pass::data ? out : x.there(), c.pass == Pass::filter ? out : w.there(),
                  c.pass == Pass::forward ? out : y.there()},
                 workspace, nullptr);
      });
  record(outcome, seed, pinned::fields_of(c), tally, fault);
}

}  // namespace estrain::kernels::test

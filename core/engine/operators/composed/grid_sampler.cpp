#include <ATen/ops/arange.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <array>
#include <vector>

#include "core/engine/operators/composed/composed.h"

namespace estrain::operators::composed {
namespace {

enum PaddingMode : int64_t { kZeros = 0, kBorder = 1, kReflection = 2 };
constexpr double kNowhere = -100;  // outside of every side

// Where the samples lie along a side of the input, [samples, places], and the derivative by the grid's number.
struct Line {
  Tensor at, slope;
  int64_t size;

  Line(const Tensor& grid, int64_t side, bool align_corners) : size(side) {
    const double half = 0.5 * static_cast<double>(align_corners ? size - 1 : size);
    at = align_corners ? grid.add(1).mul(half) : grid.add(1).mul(half).sub(0.5);
    slope = at::zeros_like(at).add_(half);
  }

  void bring_inside(int64_t padding, bool align_corners) {
    if (padding == kReflection) reflect(align_corners);
    if (padding != kZeros) clip();
    at = at.nan_to_num(kNowhere, static_cast<double>(size - kNowhere), kNowhere);
  }

  // Returns the place `tap` elements after the element before the sample.
  Tensor place_of_tap(int64_t tap, int64_t padding, bool align_corners) const {
    Line element = *this;
    element.at = at.floor().add(tap);
    element.bring_inside(padding, align_corners);
    return element.at;
  }

  Tensor contains(const Tensor& place) const { return place.ge(0).logical_and(place.le(size - 1)); }

 private:
  // At the middles of the outermost elements, or at their outer edges.
  void reflect(bool align_corners) {
    const double low = align_corners ? 0 : -0.5, span = static_cast<double>(align_corners ? size - 1 : size);
    if (span == 0) {
      at = at::zeros_like(at), slope = at::zeros_like(at);
      return;
    }
    const Tensor from_low = at.sub(low), distance = from_low.abs();
    const Tensor rest = distance.fmod(span), turns = distance.div(span).floor();
    const Tensor forward = turns.fmod(2).eq(0);
    at = at::where(forward, rest, rest.neg().add(span)).add(low);
    slope = slope.mul(at::where(from_low.lt(0).logical_xor(forward.logical_not()), -1, 1).to(slope.scalar_type()));
  }

  // As in LibTorch the derivative is 0 on the outermost elements, too.
  void clip() {
    slope = slope.mul(at.gt(0).logical_and(at.lt(size - 1)));
    at = at.clamp(0, size - 1);
  }
};

// A tap's share of a sample at a distance x from the tap's element, by LibTorch's cubic curve; and the share's slope.
constexpr double kCurve = -0.75;
struct Cubic {
  Tensor share, slope;

  static Cubic near(const Tensor& x) {
    return {x.mul(kCurve + 2).sub(kCurve + 3).mul(x).mul(x).add(1),
            x.mul(3 * (kCurve + 2)).sub(2 * (kCurve + 3)).mul(x)};
  }
  static Cubic far(const Tensor& x) {
    return {x.sub(5).mul(x).add(8).mul(x).sub(4).mul(kCurve), x.mul(3).sub(10).mul(x).add(8).mul(kCurve)};
  }
  Cubic mirrored() const { return {share, slope.neg()}; }
};

// Of the four taps around a sample.
std::array<Cubic, 4> cubics(const Tensor& at) {
  const Tensor after = at.sub(at.floor()).nan_to_num(0), before = after.neg().add(1);
  return {Cubic::far(after.add(1)), Cubic::near(after), Cubic::near(before).mirrored(),
          Cubic::far(before.add(1)).mirrored()};
}

class GridSampler {
 public:
  GridSampler(const Tensor& gradient, const Tensor& input, const Tensor& grid, int64_t padding, bool align_corners)
      : padding_(padding),
        align_corners_(align_corners),
        sides_(input.dim() - 2),
        samples_(input.size(0)),
        values_(input.flatten(2).transpose(1, 2)),
        gradient_(gradient.flatten(2).transpose(1, 2)),
        of_sample_(at::arange(samples_, grid.options().dtype(at::kLong)).unsqueeze(1)),
        gradient_of_values_(at::zeros(values_.sizes(), values_.options())) {
    const Tensor places = grid.flatten(1, sides_);
    for (int64_t i = 0; i < sides_; ++i)  // the grid's first number is of the input's last side
      lines_.emplace_back(places.select(2, i), input.size(-1 - i), align_corners);
  }

  Tensor nearest(const Tensor& grid) {
    bring_inside();
    std::vector<Tensor> places;
    for (const Line& line : lines_) places.push_back(line.at.round());
    take_corner(places, at::zeros_like(lines_[0].at).add_(1), nullptr);
    return at::zeros_like(grid, at::MemoryFormat::Contiguous);
  }

  // Adds the corners around each place in a fixed order. Returns the gradient of the grid.
  Tensor linear(const Tensor& grid) {
    bring_inside();
    std::vector<Tensor> slopes(lines_.size(), at::zeros_like(lines_[0].at));
    for (int64_t corner = 0; corner < int64_t{1} << sides_; ++corner) add_corner(corner, slopes);
    return gradient_of_grid(grid, slopes);
  }

  // Of pictures: adds the 16 taps around each place in a fixed order. Each tap is brought inside alone.
  Tensor cubic(const Tensor& grid) {
    const std::array<Cubic, 4> across = cubics(lines_[0].at), down = cubics(lines_[1].at);
    std::vector<Tensor> slopes(2, at::zeros_like(lines_[0].at));
    for (size_t row = 0; row < down.size(); ++row) {
      for (size_t column = 0; column < across.size(); ++column) {
        Tensor along;
        take_corner({place_of_tap(0, column), place_of_tap(1, row)}, across[column].share.mul(down[row].share), &along);
        slopes[0] = slopes[0].add(along.mul(across[column].slope).mul(down[row].share));
        slopes[1] = slopes[1].add(along.mul(across[column].share).mul(down[row].slope));
      }
    }
    return gradient_of_grid(grid, slopes);
  }

  Tensor gradient_of_input(const Tensor& input) const {
    return gradient_of_values_.transpose(1, 2).contiguous().view(input.sizes());
  }

 private:
  void bring_inside() {
    for (Line& line : lines_) line.bring_inside(padding_, align_corners_);
  }
  Tensor place_of_tap(size_t side, size_t tap) const {
    return lines_[side].place_of_tap(static_cast<int64_t>(tap) - 1, padding_, align_corners_);
  }
  Tensor gradient_of_grid(const Tensor& grid, std::vector<Tensor> slopes) const {
    for (size_t i = 0; i < lines_.size(); ++i) slopes[i] = slopes[i].mul(lines_[i].slope);
    return at::stack(slopes, 2).view(grid.sizes());
  }

  void add_corner(int64_t corner, std::vector<Tensor>& slopes) {
    std::vector<Tensor> places, shares;
    for (size_t i = 0; i < lines_.size(); ++i) {
      const bool upper = (corner >> i & 1) != 0;
      const Tensor low = lines_[i].at.floor(), rest = lines_[i].at.sub(low);
      places.push_back(upper ? low.add(1) : low);
      shares.push_back(upper ? rest : rest.neg().add(1));
    }
    Tensor share = shares[0];
    for (size_t i = 1; i < shares.size(); ++i) share = share.mul(shares[i]);
    Tensor along;  // the gradient by the corner's share, [samples, places]
    take_corner(places, share, &along);
    for (size_t i = 0; i < lines_.size(); ++i) {
      Tensor others = along;
      for (size_t k = 0; k < shares.size(); ++k)
        if (k != i) others = others.mul(shares[k]);
      slopes[i] = (corner >> i & 1) != 0 ? slopes[i].add(others) : slopes[i].sub(others);
    }
  }

  void take_corner(const std::vector<Tensor>& places, const Tensor& share, Tensor* along) {
    Tensor number, exists;
    for (size_t i = places.size(); i-- > 0;) {
      const Line& line = lines_[i];
      const Tensor place = places[i].clamp(0, line.size - 1).to(at::kLong), is_in = line.contains(places[i]);
      number = number.defined() ? number.mul(line.size).add(place) : place;
      exists = exists.defined() ? exists.logical_and(is_in) : is_in;
    }
    const Tensor weight = share.mul(exists).unsqueeze(2);
    gradient_of_values_.index_put_({of_sample_, number}, gradient_.mul(weight), /*accumulate=*/true);
    if (along == nullptr) return;
    *along = values_.index({of_sample_, number}).mul(gradient_).sum(2).mul(exists);
  }

  int64_t padding_;
  bool align_corners_;
  int64_t sides_, samples_;
  Tensor values_, gradient_;  // [samples, places, channels]
  Tensor of_sample_;
  Tensor gradient_of_values_;
  std::vector<Line> lines_;
};

}  // namespace

std::tuple<Tensor, Tensor> grid_sampler_backward(const Tensor& gradient, const Tensor& input, const Tensor& grid,
                                                 int64_t interpolation, int64_t padding, bool align_corners,
                                                 std::array<bool, 2> wanted) {
  GridSampler sampler(gradient, input, grid, padding, align_corners);
  const Tensor of_grid = interpolation == kBilinear  ? sampler.linear(grid)
                         : interpolation == kNearest ? sampler.nearest(grid)
                                                     : sampler.cubic(grid);
  return {wanted[0] ? sampler.gradient_of_input(input) : Tensor(), of_grid};
}

}  // namespace estrain::operators::composed

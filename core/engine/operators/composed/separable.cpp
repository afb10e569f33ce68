#include <ATen/OpMathType.h>
#include <ATen/ops/_upsample_bicubic2d_aa.h>
#include <ATen/ops/_upsample_bilinear2d_aa.h>
#include <ATen/ops/adaptive_avg_pool1d.h>
#include <ATen/ops/avg_pool1d.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/reflection_pad1d.h>
#include <ATen/ops/replication_pad1d.h>
#include <ATen/ops/upsample_bicubic2d.h>
#include <ATen/ops/upsample_linear1d.h>

#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "core/engine/operators/composed/composed.h"

namespace estrain::operators::composed {
namespace {

constexpr size_t kMostWeights = 256;  // kept; beyond them, weights are made at every call

// What the weights of a side depend on.
struct Side {
  const char* kind;
  int64_t outputs, inputs;
  std::array<int64_t, 5> options{};
  double scale = 0;

  auto operator<=>(const Side&) const = default;
};

// The forward pass along the last side of [1, n, inputs].
using Forward = std::function<Tensor(const Tensor&)>;

// Returns [outputs, inputs]: the weight of each input in an output; not defined if each output is its input.
Tensor new_weights(const Side& side, const Forward& forward, const at::TensorOptions& options) {
  const Tensor unit = at::eye(side.inputs, at::kDouble);
  const Tensor weights = forward(unit.unsqueeze(0)).squeeze(0).t().contiguous();
  return at::equal(weights, unit) ? Tensor() : weights.to(options);
}

// Thread-safe. Weights are made on the host once: a copy at every call would stall the host, and break the capture of a
// CUDA graph. Kept weights stay where they are: a captured CUDA graph reads them.
Tensor weights_of(const Side& side, const Forward& forward, const at::TensorOptions& options) {
  using Key = std::tuple<std::string, Side, at::ScalarType, c10::DeviceType, c10::DeviceIndex>;
  static std::mutex mutex;
  static auto* const kept = new std::map<Key, Tensor>;  // never freed: LibTorch may shut down before static objects
                                                        // are destroyed
  const c10::Device device = options.device();
  Side without_kind = side;
  without_kind.kind = nullptr;
  const Key key{side.kind, without_kind, options.dtype().toScalarType(), device.type(), device.index()};
  const std::lock_guard lock(mutex);
  if (const auto found = kept->find(key); found != kept->end()) return found->second;
  if (kept->size() >= kMostWeights) return new_weights(side, forward, options);
  return kept->emplace(key, new_weights(side, forward, options)).first->second;
}

// A backward pass, side by side.
class Backward {
 public:
  explicit Backward(const Tensor& gradient)
      : type_(gradient.scalar_type()), values_(gradient.to(at::toOpMathType(gradient.scalar_type()))) {}

  // `dim` counts from the last: -1, -2, ….
  void along(int64_t dim, const Side& side, const Forward& forward) {
    const Tensor weights = weights_of(side, forward, values_.options());
    if (weights.defined()) values_ = at::matmul(values_.transpose(dim, -1).contiguous(), weights).transpose(dim, -1);
  }
  Tensor result() const { return values_.to(type_).contiguous(); }

 private:
  at::ScalarType type_;
  Tensor values_;
};

using Upsample2d = Tensor (*)(const Tensor&, IntArrayRef, bool, Scale, Scale);

// Along the last side, by an operator for two sides.
Forward line_of(Upsample2d upsample, int64_t outputs, bool align_corners, Scale scale) {
  return [=](const Tensor& line) {
    return upsample(line.unsqueeze(2), {1, outputs}, align_corners, std::nullopt, scale).squeeze(2);
  };
}

Forward linear_line(int64_t outputs, bool align_corners, Scale scale) {
  return [=](const Tensor& line) { return at::upsample_linear1d(line, {outputs}, align_corners, scale); };
}

using MakeForward = std::function<Forward(int64_t outputs, bool align_corners, Scale scale)>;

// LibTorch's CPU kernels ignore the scale of a side that stays equal, X
Forward with_scale(const MakeForward& make, int64_t outputs, int64_t inputs, bool align_corners, Scale scale) {
  if (outputs != inputs || !scale || align_corners) return make(outputs, align_corners, scale);
  return [outputs, forward = make(outputs + 1, align_corners, scale)](const Tensor& line) {
    return forward(line).narrow(-1, 0, outputs);
  };
}

// `scales`: of the sides in the order of `output`.
Tensor upsample_backward(const char* kind, const MakeForward& make, const Tensor& gradient, IntArrayRef output,
                         IntArrayRef input, bool align_corners, const std::vector<Scale>& scales) {
  Backward backward(gradient);
  const auto sides = static_cast<int64_t>(output.size());
  for (int64_t i = 0; i < sides; ++i) {
    const auto at = static_cast<size_t>(i);
    backward.along(i - sides, {kind, output[at], input[at + 2], {align_corners}, scales[at].value_or(0)},
                   with_scale(make, output[at], input[at + 2], align_corners, scales[at]));
  }
  return backward.result();
}

// Without antialiasing LibTorch's GPU kernels copy if all sides stay equal, whatever the scales are.
Tensor copy_or_backward(const char* kind, const MakeForward& make, const Tensor& gradient, IntArrayRef output,
                        IntArrayRef input, bool align_corners, const std::vector<Scale>& scales) {
  if (output == input.slice(2)) return gradient.contiguous();
  return upsample_backward(kind, make, gradient, output, input, align_corners, scales);
}

MakeForward by_two_sides(Upsample2d upsample) {
  return [upsample](int64_t outputs, bool align_corners, Scale scale) {
    return line_of(upsample, outputs, align_corners, scale);
  };
}

Tensor bicubic(const Tensor& image, IntArrayRef output, bool align_corners, Scale rows, Scale columns) {
  return at::upsample_bicubic2d(image, output, align_corners, rows, columns);
}
Tensor bilinear_aa(const Tensor& image, IntArrayRef output, bool align_corners, Scale rows, Scale columns) {
  return at::_upsample_bilinear2d_aa(image, output, align_corners, rows, columns);
}
Tensor bicubic_aa(const Tensor& image, IntArrayRef output, bool align_corners, Scale rows, Scale columns) {
  return at::_upsample_bicubic2d_aa(image, output, align_corners, rows, columns);
}

}  // namespace

Tensor upsample_linear1d_backward(const Tensor& gradient, IntArrayRef output, IntArrayRef input, bool align_corners,
                                  Scale scale) {
  return copy_or_backward("linear", linear_line, gradient, output, input, align_corners, {scale});
}

Tensor upsample_bilinear2d_backward(const Tensor& gradient, IntArrayRef output, IntArrayRef input, bool align_corners,
                                    Scale rows, Scale columns) {
  return copy_or_backward("linear", linear_line, gradient, output, input, align_corners, {rows, columns});
}

Tensor upsample_trilinear3d_backward(const Tensor& gradient, IntArrayRef output, IntArrayRef input, bool align_corners,
                                     Scale depth, Scale rows, Scale columns) {
  return copy_or_backward("linear", linear_line, gradient, output, input, align_corners, {depth, rows, columns});
}

Tensor upsample_bicubic2d_backward(const Tensor& gradient, IntArrayRef output, IntArrayRef input, bool align_corners,
                                   Scale rows, Scale columns) {
  return copy_or_backward("bicubic", by_two_sides(bicubic), gradient, output, input, align_corners, {rows, columns});
}

Tensor upsample_bilinear2d_aa_backward(const Tensor& gradient, IntArrayRef output, IntArrayRef input,
                                       bool align_corners, Scale rows, Scale columns) {
  return upsample_backward("bilinear_aa", by_two_sides(bilinear_aa), gradient, output, input, align_corners,
                           {rows, columns});
}

Tensor upsample_bicubic2d_aa_backward(const Tensor& gradient, IntArrayRef output, IntArrayRef input, bool align_corners,
                                      Scale rows, Scale columns) {
  return upsample_backward("bicubic_aa", by_two_sides(bicubic_aa), gradient, output, input, align_corners,
                           {rows, columns});
}

Tensor adaptive_avg_pool_backward(const Tensor& gradient, const Tensor& input, int64_t sides) {
  Backward backward(gradient);
  for (int64_t dim = -sides; dim < 0; ++dim) {
    const int64_t outputs = gradient.size(dim);
    backward.along(dim, {"adaptive_avg", outputs, input.size(dim)},
                   [outputs](const Tensor& line) { return at::adaptive_avg_pool1d(line, {outputs}); });
  }
  return backward.result();
}

Tensor avg_pool3d_backward(const Tensor& gradient, const Tensor& input, IntArrayRef window, IntArrayRef stride,
                           IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                           std::optional<int64_t> divisor) {
  const auto of_side = [](IntArrayRef values, size_t side) { return values[values.size() == 1 ? 0 : side]; };
  Backward backward(gradient);
  for (size_t side = 0; side < 3; ++side) {
    const int64_t dim = static_cast<int64_t>(side) - 3, k = of_side(window, side), p = of_side(padding, side);
    const int64_t s = stride.empty() ? k : of_side(stride, side);
    const int64_t mode = 4 * divisor.has_value() + 2 * ceil_mode + count_include_pad;
    backward.along(dim, {"avg", gradient.size(dim), input.size(dim), {k, s, p, mode}}, [=](const Tensor& line) {
      if (!divisor) return at::avg_pool1d(line, {k}, {s}, {p}, ceil_mode, count_include_pad);
      return at::avg_pool2d(line.unsqueeze(2), {1, k}, {1, s}, {0, p}, ceil_mode, count_include_pad, 1).squeeze(2);
    });
  }
  const Tensor result = backward.result();
  return divisor ? result / *divisor : result;
}

Tensor pad_backward(const Tensor& gradient, const Tensor& input, IntArrayRef padding, Padding kind) {
  Backward backward(gradient);
  for (size_t i = 0; i < padding.size(); i += 2) {  // from the last side on
    const int64_t dim = -1 - static_cast<int64_t>(i / 2), left = padding[i], right = padding[i + 1];
    const bool reflects = kind == Padding::reflection;
    backward.along(
        dim, {reflects ? "reflection" : "replication", gradient.size(dim), input.size(dim), {left, right}},
        [=](const Tensor& line) {
          return reflects ? at::reflection_pad1d(line, {left, right}) : at::replication_pad1d(line, {left, right});
        });
  }
  return backward.result();
}

}  // namespace estrain::operators::composed

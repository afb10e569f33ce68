#pragma once
// Operators of LibTorch, composed of operators that are deterministic on every device. LibTorch's own GPU kernels of
// these operators add with atomics, in the order of arrival.
//
// The functions have the arguments and results of the aten operator of the same name, without leading underscores, and
// LibTorch's values within rounding. They take every device and floating-point type; results are contiguous.

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <string_view>
#include <tuple>

namespace estrain::operators::composed {

using at::IntArrayRef;
using at::Tensor;
using Scale = std::optional<double>;

// Backward passes that are a matrix product along each side: the forward pass weighs the inputs of a side alone. The
// weights come from LibTorch's forward pass on the CPU, and are kept.
Tensor upsample_linear1d_backward(const Tensor& gradient, IntArrayRef output, IntArrayRef input, bool align_corners,
                                  Scale scale);
Tensor upsample_bilinear2d_backward(const Tensor& gradient, IntArrayRef output, IntArrayRef input, bool align_corners,
                                    Scale rows, Scale columns);
Tensor upsample_bicubic2d_backward(const Tensor& gradient, IntArrayRef output, IntArrayRef input, bool align_corners,
                                   Scale rows, Scale columns);
Tensor upsample_bilinear2d_aa_backward(const Tensor& gradient, IntArrayRef output, IntArrayRef input,
                                       bool align_corners, Scale rows, Scale columns);
Tensor upsample_bicubic2d_aa_backward(const Tensor& gradient, IntArrayRef output, IntArrayRef input, bool align_corners,
                                      Scale rows, Scale columns);
Tensor upsample_trilinear3d_backward(const Tensor& gradient, IntArrayRef output, IntArrayRef input, bool align_corners,
                                     Scale depth, Scale rows, Scale columns);
Tensor adaptive_avg_pool_backward(const Tensor& gradient, const Tensor& input, int64_t sides);
Tensor avg_pool3d_backward(const Tensor& gradient, const Tensor& input, IntArrayRef window, IntArrayRef stride,
                           IntArrayRef padding, bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor);
enum class Padding { reflection, replication };
// Padding along the last padding.size() / 2 sides.
Tensor pad_backward(const Tensor& gradient, const Tensor& input, IntArrayRef padding, Padding kind);

// Results of places in memory, with equal places added, or assigned, in a fixed order.
// Pooling's gradient: `indices` [..., outputs] are places in a plane of the last `sides` sides of `input`.
Tensor max_pool_backward(const Tensor& gradient, const Tensor& input, const Tensor& indices, int64_t sides);
Tensor max_unpool(const Tensor& input, const Tensor& indices, IntArrayRef output);
Tensor& put_(Tensor& self, const Tensor& index, const Tensor& source, bool accumulate);
Tensor weighted_bincount(const Tensor& values, const Tensor& weights, int64_t least);
// Of mode "max". `sizes` [bags]; `places` [bags, width]: the row of the table that gave each maximum.
Tensor embedding_bag_max_backward(const Tensor& gradient, const Tensor& sizes, const Tensor& places, int64_t rows);
// Of floating-point numbers. The counts of bins are exact.
Tensor histc(const Tensor& self, int64_t bins, const at::Scalar& least, const at::Scalar& most);
std::tuple<Tensor, Tensor> nll_loss2d_forward(const Tensor& self, const Tensor& target,
                                              const std::optional<Tensor>& weight, int64_t reduction, int64_t ignored);

// Along a dimension. Of equal elements the first in the order of a stable sort counts.
std::tuple<Tensor, Tensor> median(const Tensor& self, int64_t dim, bool keepdim);
std::tuple<Tensor, Tensor> nanmedian(const Tensor& self, int64_t dim, bool keepdim);
std::tuple<Tensor, Tensor> kthvalue(const Tensor& self, int64_t k, int64_t dim, bool keepdim);
// Of a tensor with a single line.
Tensor cumprod(const Tensor& self, int64_t dim, std::optional<at::ScalarType> type);
Tensor logcumsumexp(const Tensor& self, int64_t dim);
// `reduce`: "prod", "mean", "amax" or "amin". Equal places are reduced in a tree over the order of the source. An index
// outside of `self` is an error, which a GPU reports later.
Tensor scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                      std::string_view reduce, bool include_self);
Tensor index_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, std::string_view reduce,
                    bool include_self);

// Pictures and volumes. `padding` is LibTorch's number: 0 zeros, 1 border, 2 reflection.
enum Interpolation : int64_t { kBilinear = 0, kNearest = 1, kBicubic = 2 };
std::tuple<Tensor, Tensor> grid_sampler_backward(const Tensor& gradient, const Tensor& input, const Tensor& grid,
                                                 int64_t interpolation, int64_t padding, bool align_corners,
                                                 std::array<bool, 2> wanted);

}  // namespace estrain::operators::composed

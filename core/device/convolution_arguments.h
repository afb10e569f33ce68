#pragma once
// The arguments of LibTorch's operators for a convolution of images [n, c, h, w] or [n, c, w].

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace estrain::device {

struct ConvolutionArguments {
  at::IntArrayRef stride, padding, dilation;  // one number per dimension of the image, or one for all
  int64_t groups = 1;
  bool transposed = false;

  // Fills a struct with fields of these names. A one-dimensional image has height 1. `weight`: [channels_out,
  // channels_in / groups, …], with as many dimensions as `input`.
  template <typename Shape>
  void describe(const at::Tensor& input, const at::Tensor& weight, Shape& shape) const {
    const int64_t last = input.dim() - 1;
    const bool is_high = input.dim() == 4;
    const auto along_height = [is_high](at::IntArrayRef values, int64_t missing) {
      if (!is_high) return missing;
      return values.size() == 1 ? values[0] : values[values.size() - 2];
    };
    shape.batch = input.size(0);
    shape.channels_in = input.size(1);
    shape.height = is_high ? input.size(2) : 1;
    shape.width = input.size(last);
    shape.channels_out = weight.size(0);
    shape.filter_height = is_high ? weight.size(2) : 1;
    shape.filter_width = weight.size(last);
    shape.groups = groups;
    shape.stride_height = along_height(stride, 1);
    shape.stride_width = stride.back();
    shape.padding_height = along_height(padding, 0);
    shape.padding_width = padding.back();
    shape.dilation_height = along_height(dilation, 1);
    shape.dilation_width = dilation.back();
  }
};

}  // namespace estrain::device

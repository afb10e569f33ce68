#pragma once
// The arguments of LibTorch's operators for a convolution of images [n, c, h, w] or [n, c, w].

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

namespace estrain::device {

struct ConvolutionArguments {
  at::IntArrayRef stride, padding, dilation;  // one number per dimension of the image, or one for all
  int64_t groups = 1;
  bool transposed = false;
  at::IntArrayRef output_padding{};  // of a transposed convolution; empty: 0

  // Returns whether a transposed convolution has output_padding of a stride or more along an axis. Then it is not the
  // gradient of a convolution: that convolution's output would be larger than the transposed one's input.
  bool pads_output_widely() const {
    if (!transposed) return false;
    const size_t axes = std::max(output_padding.size(), stride.size());
    for (size_t axis = 0; axis < axes && !output_padding.empty(); ++axis) {
      const auto at = [axis](at::IntArrayRef values) { return values[values.size() == 1 ? 0 : axis]; };
      if (at(output_padding) >= at(stride)) return true;
    }
    return false;
  }

  // The sizes along one axis of the image.
  struct SpatialAxis {
    int64_t size, filter, stride, padding, dilation;
  };
  // A one-dimensional image has height 1. `weight`: [channels_out, channels_in / groups, …], with as many dimensions as
  // `input`.
  SpatialAxis height(const at::Tensor& input, const at::Tensor& weight) const {
    if (input.dim() != 4) return {.size = 1, .filter = 1, .stride = 1, .padding = 0, .dilation = 1};
    const auto value = [](at::IntArrayRef values) {
      return values.size() == 1 ? values[0] : values[values.size() - 2];
    };
    return {input.size(2), weight.size(2), value(stride), value(padding), value(dilation)};
  }
  SpatialAxis width(const at::Tensor& input, const at::Tensor& weight) const {
    const int64_t last = input.dim() - 1;
    return {input.size(last), weight.size(last), stride.back(), padding.back(), dilation.back()};
  }

  // Fills a struct with fields of these names.
  template <typename Shape>
  void describe(const at::Tensor& input, const at::Tensor& weight, Shape& shape) const {
    const SpatialAxis down = height(input, weight), across = width(input, weight);
    shape.batch = input.size(0);
    shape.channels_in = input.size(1);
    shape.height = down.size;
    shape.width = across.size;
    shape.channels_out = weight.size(0);
    shape.filter_height = down.filter;
    shape.filter_width = across.filter;
    shape.groups = groups;
    shape.stride_height = down.stride;
    shape.stride_width = across.stride;
    shape.padding_height = down.padding;
    shape.padding_width = across.padding;
    shape.dilation_height = down.dilation;
    shape.dilation_width = across.dilation;
  }
};

}  // namespace estrain::device

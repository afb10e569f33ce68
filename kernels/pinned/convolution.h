#pragma once
// Convolutions of images, and their gradients, through cuDNN by an algorithm that is named, not left to its heuristics.
//
// An algorithm is a text, "engine=5 knobs=2:7,14:3": an engine of cuDNN's backend by its global index, and the values
// of its knobs (cudnnBackendKnobType_t), from which alone the execution plan is built again. The same text, shape and
// type of device with the same cuDNN gives the same bits. Excluded are engines whose notes say that they are not
// deterministic, or sum in less than float32; in float32 those that make their inputs 16-bit floats, and at Math::exact
// those on tensor cores; and those that want more than most_workspace().
//
// Images are NCHW, filters KCRS, contiguous; pointers are the device's, multiples of kConvolutionAlignment bytes. An
// image of one dimension is one of height 1. One thread at a time.

#include <algorithm>
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/pinned/precision.h"

namespace estrain::kernels::pinned {

constexpr size_t kConvolutionAlignment = 16;  // bytes

enum class Pass {
  forward,  // y from x and w
  data,     // the gradient of x from those of y, and w
  filter,   // the gradient of w from x and the gradient of y
};

// y[channels_out] = x[channels_in] * w[channels_out, channels_in / groups], cross-correlated. No size is 0.
struct Convolution {
  Pass pass = Pass::forward;
  Element element = Element::f32;
  Math math = Math::exact;
  int64_t batch = 1, channels_in = 1, height = 1, width = 1;
  int64_t channels_out = 1, filter_height = 1, filter_width = 1, groups = 1;
  int64_t stride_height = 1, stride_width = 1, padding_height = 0, padding_width = 0;
  int64_t dilation_height = 1, dilation_width = 1;

  int64_t output_height() const {
    return (height + 2 * padding_height - dilation_height * (filter_height - 1) - 1) / stride_height + 1;
  }
  int64_t output_width() const {
    return (width + 2 * padding_width - dilation_width * (filter_width - 1) - 1) / stride_width + 1;
  }
  // Whether the filter lies within the padded image somewhere: there is an output.
  bool filter_fits() const {
    return height + 2 * padding_height > dilation_height * (filter_height - 1) &&
           width + 2 * padding_width > dilation_width * (filter_width - 1);
  }
  // Bytes. On tensor cores images are rearranged, channels last, in the workspace: about the bytes of the operands. An
  // algorithm may have twice that, or kMostWorkspace if that is more.
  size_t most_workspace() const {
    const int64_t x = batch * channels_in * height * width, y = batch * channels_out * output_height() * output_width();
    const int64_t w = channels_out * (channels_in / groups) * filter_height * filter_width;
    return std::max(kMostWorkspace, 2 * bytes_of(element) * static_cast<size_t>(x + w + y));
  }
  auto operator<=>(const Convolution&) const = default;
};

// Or their gradients; the one that the pass gives is written, the others are read.
struct ConvolutionOperands {
  void *x = nullptr, *w = nullptr, *y = nullptr;
};

class ConvolutionPlan {
 public:
  virtual ~ConvolutionPlan() = default;
  virtual size_t workspace() const = 0;  // bytes
  // Puts the convolution into `stream` (a cudaStream_t). Throws Failure.
  virtual void run(const ConvolutionOperands& operands, void* workspace, void* stream) = 0;
};

class Convolutions {
 public:
  // For the CUDA device that is current. Throws Failure.
  Convolutions();
  // For a device that need not be there, as cuDNN describes one (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION): what is
  // built for it does not run.
  explicit Convolutions(const std::string& device);
  ~Convolutions();
  Convolutions(const Convolutions&) = delete;

  static std::string version();  // "cuDNN 9.19.0"

  // Algorithms that can be built for the convolution, ascending by engine, then knobs. Engines that are compiled when
  // they are built (seconds each) are among them only where there are no others. None where cuDNN does not know the
  // convolution. `between`: called now and then, as this may take seconds. `left_out`: told why one that the library
  // has is not among them.
  std::vector<std::string> candidates(
      const Convolution& convolution, const std::function<void()>& between = [] {},
      const std::function<void(const std::string&)>& left_out = [](const std::string&) {}) const;

  struct Built {
    std::unique_ptr<ConvolutionPlan> plan;  // null: refused
    std::string refusal;                    // why; also where a call of the library fails
  };
  // Plans must not outlive this object.
  Built build(const Convolution& convolution, const std::string& algorithm) const;

 private:
  struct Handle;
  Built try_to_build(const Convolution& convolution, const std::string& algorithm) const;
  std::unique_ptr<Handle> handle_;
};

}  // namespace estrain::kernels::pinned

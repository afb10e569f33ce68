#pragma once
// Convolutions of images and volumes, and the gradients, through cuDNN, by a named algorithm instead of cuDNN's
// heuristics.
//
// An algorithm is a text, "engine=5 knobs=2:7,14:3": the global index of an engine in cuDNN's backend and the values of
// the engine's knobs (cudnnBackendKnobType_t). The text is enough to rebuild the execution plan. The same text, shape
// and type of device with the same cuDNN gives the same bits. Excluded are engines with notes that they are not
// deterministic or sum in less than float32; in bf16 knobs that split a sum into parts, since the parts are rounded to
// bf16; in float32 engines that convert inputs to 16-bit floats, and at Math::exact engines on tensor cores; and
// engines that need more than most_workspace().
//
// Images are NCHW, volumes NCDHW, filters KCRS or KCTRS, contiguous; pointers are in device memory, multiples of
// kConvolutionAlignment bytes. A one-dimensional image has height 1. For one thread at a time.

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
  data,     // the gradient of x from the gradient of y, and w
  filter,   // the gradient of w from x and the gradient of y
};

// The sizes of a convolution along one axis of an image.
struct ConvolutionExtent {
  int64_t size = 1, filter = 1;
  int64_t stride = 1, padding = 0, dilation = 1;

  int64_t output() const { return (size + 2 * padding - dilation * (filter - 1) - 1) / stride + 1; }
  // Returns whether the filter fits into the padded image. Without a fit the convolution has no output.
  bool filter_fits() const { return size + 2 * padding > dilation * (filter - 1); }
  auto operator<=>(const ConvolutionExtent&) const = default;
};

// y[channels_out] = x[channels_in] * w[channels_out, channels_in / groups], cross-correlated. No size is 0.
struct ConvolutionProblem {
  Pass pass = Pass::forward;
  Element element = Element::f32;
  Math math = Math::exact;
  int64_t batch = 1, channels_in = 1, channels_out = 1, groups = 1;
  ConvolutionExtent height, width;
  ConvolutionExtent depth;  // of a volume; an image has depth 1

  bool is_volume() const { return depth != ConvolutionExtent(); }
  // From the outermost axis on.
  std::vector<ConvolutionExtent> axes() const {
    return is_volume() ? std::vector{depth, height, width} : std::vector{height, width};
  }
  bool filter_fits() const { return depth.filter_fits() && height.filter_fits() && width.filter_fits(); }
  // Returns bytes. Tensor-core engines rearrange images to channels-last in the workspace, which takes about the bytes
  // of the operands. The limit is twice these bytes, or kMostWorkspace if larger.
  size_t most_workspace() const {
    int64_t x = batch * channels_in, y = batch * channels_out, w = channels_out * (channels_in / groups);
    for (const ConvolutionExtent& axis : axes()) x *= axis.size, y *= axis.output(), w *= axis.filter;
    return std::max(kMostWorkspace, 2 * bytes_of(element) * static_cast<size_t>(x + w + y));
  }
  auto operator<=>(const ConvolutionProblem&) const = default;
};

// The operands or the operands' gradients. The pass writes one of the three and reads two.
struct ConvolutionOperands {
  void *x = nullptr, *w = nullptr, *y = nullptr;
};

class ConvolutionPlan {
 public:
  virtual ~ConvolutionPlan() = default;
  virtual size_t workspace() const = 0;  // bytes
  // Queues the convolution in `stream` (a cudaStream_t). Throws Failure.
  virtual void run(const ConvolutionOperands& operands, void* workspace, void* stream) = 0;
};

// A BuiltConvolution is a plan, or the reason why there is none.
struct BuiltConvolution {
  std::unique_ptr<ConvolutionPlan> plan;  // null: refused
  std::string refusal;                    // the reason; also set if a library call fails
};

class Convolutions {
 public:
  // For the current CUDA device. Throws Failure.
  Convolutions();
  // For a device that may be absent, by cuDNN's description (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION). Plans for an
  // absent device cannot run.
  explicit Convolutions(const std::string& device);
  ~Convolutions();
  Convolutions(const Convolutions&) = delete;

  static std::string version();  // "cuDNN 9.19.0"

  // Returns all algorithms for the convolution, sorted by engine, then knobs. Engines that need compiling (seconds
  // each) are included only if no engine is precompiled. Empty if cuDNN does not know the convolution. Calls `between`
  // now and then, as the search may take seconds. `left_out` gets the reason for each excluded algorithm of the
  // library.
  std::vector<std::string> candidates(
      const ConvolutionProblem& convolution, const std::function<void()>& between = [] {},
      const std::function<void(const std::string&)>& left_out = [](const std::string&) {}) const;

  // Plans must not outlive this object.
  BuiltConvolution build(const ConvolutionProblem& convolution, const std::string& algorithm) const;

 private:
  struct Handle;
  BuiltConvolution try_to_build(const ConvolutionProblem& convolution, const std::string& algorithm) const;
  std::unique_ptr<Handle> handle_;
};

}  // namespace estrain::kernels::pinned

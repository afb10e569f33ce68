#include "core/engine/cuda/pinned/pinned_operators.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/addmm_cuda_dispatch.h>
#include <ATen/ops/baddbmm_cuda_dispatch.h>
#include <ATen/ops/bmm_cuda_dispatch.h>
#include <ATen/ops/convolution_backward_cuda_dispatch.h>
#include <ATen/ops/convolution_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/mm_cuda_dispatch.h>
#include <ATen/ops/sum.h>

#include <array>
#include <tuple>

#include "core/base/error.h"
#include "core/engine/device/quiet_warnings.h"

namespace estrain::cuda {
namespace {

using at::IntArrayRef;
using at::Scalar;
using at::Tensor;
using Gradients = std::tuple<Tensor, Tensor, Tensor>;
using ProductCall = PinnedProducts::ProductCall;
using device::ConvolutionArguments;

// Translates failures of the CUDA libraries into messages for the fault table.
template <typename Body>
decltype(auto) translated(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const kernels::pinned::Failure& failure) {
    throw Error::make(Fault::bug, "CUDA failure: {}", failure.what());
  }
}

ProductCall call(const Tensor& a, const Tensor& b) { return {a, b}; }
ProductCall call(const Tensor& addend, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  return {a, b, &addend, beta.toDouble(), alpha.toDouble()};
}

bool real(const Scalar& beta, const Scalar& alpha) { return !beta.isComplex() && !alpha.isComplex(); }

Tensor& give(const Tensor& result, Tensor& out) {
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

// LibTorch refuses an in-place operation if the addend's shape differs from the result's.
bool fits_in_place(const Tensor& self, const Tensor& a, const Tensor& b) {
  const int64_t dim = a.dim();
  return self.dim() == dim && b.dim() == dim && dim >= 2 && self.size(dim - 2) == a.size(dim - 2) &&
         self.size(dim - 1) == b.size(dim - 1) && (dim == 2 || self.size(0) == a.size(0));
}

bool takes_result(const Tensor& out, const Tensor& a) {
  return out.is_cuda() && out.device() == a.device() && out.scalar_type() == a.scalar_type();
}

}  // namespace

PinnedOperators::PinnedOperators(const algorithms::Pinning& pinning, const std::string& device)
    : algorithms_(pinning, device,
                  kernels::pinned::Convolutions::version() + ", " + kernels::pinned::Products::version()),
      products_(algorithms_),
      convolutions_(algorithms_),
      library_(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__) {
  const device::QuietWarnings quiet;
  replace_products();
  replace_convolutions();
}

void PinnedOperators::replace_products() {
  // Returns an undefined tensor if LibTorch must compute the result.
  const auto pinned = [this](const ProductCall& wanted) -> Tensor {
    if (!PinnedProducts::is_pinned(wanted)) return {};
    const std::lock_guard one(one_at_a_time_);
    return translated([&] { return products_.compute(wanted); });
  };
  const auto with_addend = [pinned](const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                                    const Scalar& alpha) -> Tensor {
    return real(beta, alpha) ? pinned(call(self, a, b, beta, alpha)) : Tensor();
  };

  library_.impl("mm", [pinned](const Tensor& a, const Tensor& b) {
    const Tensor result = a.dim() == 2 ? pinned(call(a, b)) : Tensor();
    return result.defined() ? result : at::cuda::mm(a, b);
  });
  library_.impl("mm.out", [pinned](const Tensor& a, const Tensor& b, Tensor& out) -> Tensor& {
    const Tensor result = a.dim() == 2 && takes_result(out, a) ? pinned(call(a, b)) : Tensor();
    return result.defined() ? give(result, out) : at::cuda::mm_out(out, a, b);
  });
  library_.impl("bmm", [pinned](const Tensor& a, const Tensor& b) {
    const Tensor result = a.dim() == 3 ? pinned(call(a, b)) : Tensor();
    return result.defined() ? result : at::cuda::bmm(a, b);
  });
  library_.impl("bmm.out", [pinned](const Tensor& a, const Tensor& b, Tensor& out) -> Tensor& {
    const Tensor result = a.dim() == 3 && takes_result(out, a) ? pinned(call(a, b)) : Tensor();
    return result.defined() ? give(result, out) : at::cuda::bmm_out(out, a, b);
  });

  library_.impl("addmm", [with_addend](const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                                       const Scalar& alpha) {
    const Tensor result = a.dim() == 2 ? with_addend(self, a, b, beta, alpha) : Tensor();
    return result.defined() ? result : at::cuda::addmm(self, a, b, beta, alpha);
  });
  library_.impl("addmm.out",
                [with_addend](const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                              const Scalar& alpha, Tensor& out) -> Tensor& {
                  const Tensor result =
                      a.dim() == 2 && takes_result(out, a) ? with_addend(self, a, b, beta, alpha) : Tensor();
                  return result.defined() ? give(result, out) : at::cuda::addmm_out(out, self, a, b, beta, alpha);
                });
  library_.impl("addmm_",
                [with_addend](Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                              const Scalar& alpha) -> Tensor& {
                  const Tensor result =
                      a.dim() == 2 && fits_in_place(self, a, b) ? with_addend(self, a, b, beta, alpha) : Tensor();
                  return result.defined() ? self.copy_(result) : at::cuda::addmm_(self, a, b, beta, alpha);
                });
  library_.impl("baddbmm", [with_addend](const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                                         const Scalar& alpha) {
    const Tensor result = a.dim() == 3 ? with_addend(self, a, b, beta, alpha) : Tensor();
    return result.defined() ? result : at::cuda::baddbmm(self, a, b, beta, alpha);
  });
  library_.impl("baddbmm.out",
                [with_addend](const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                              const Scalar& alpha, Tensor& out) -> Tensor& {
                  const Tensor result =
                      a.dim() == 3 && takes_result(out, a) ? with_addend(self, a, b, beta, alpha) : Tensor();
                  return result.defined() ? give(result, out) : at::cuda::baddbmm_out(out, self, a, b, beta, alpha);
                });
  library_.impl("baddbmm_",
                [with_addend](Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                              const Scalar& alpha) -> Tensor& {
                  const Tensor result =
                      a.dim() == 3 && fits_in_place(self, a, b) ? with_addend(self, a, b, beta, alpha) : Tensor();
                  return result.defined() ? self.copy_(result) : at::cuda::baddbmm_(self, a, b, beta, alpha);
                });
}

void PinnedOperators::replace_convolutions() {
  library_.impl("convolution", [this](const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
                                      IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                                      IntArrayRef output_padding, int64_t groups) {
    const ConvolutionArguments arguments = {stride, padding, dilation, groups, transposed, output_padding};
    Tensor result;
    if (PinnedConvolutions::is_pinned(input, weight, {}, arguments)) {
      const std::lock_guard one(one_at_a_time_);
      result = translated([&] { return convolutions_.forward(input, weight, arguments); });
    }
    if (!result.defined()) {
      return at::compositeexplicitautograd::convolution(input, weight, bias, stride, padding, dilation, transposed,
                                                        output_padding, groups);
    }
    if (bias.has_value() && bias->defined()) {
      std::vector<int64_t> along_channels(static_cast<size_t>(input.dim()), 1);
      along_channels[1] = -1;
      result.add_(bias->reshape(along_channels));
    }
    return result;
  });

  library_.impl(
      "convolution_backward",
      [this](const Tensor& gradient, const Tensor& input, const Tensor& weight, at::OptionalIntArrayRef bias_sizes,
             IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
             int64_t groups, std::array<bool, 3> wanted) -> Gradients {
        const ConvolutionArguments arguments = {stride, padding, dilation, groups, transposed, output_padding};
        const auto by_libtorch = [&](std::array<bool, 3> parts) {
          return at::cuda::convolution_backward(gradient, input, weight, bias_sizes, stride, padding, dilation,
                                                transposed, output_padding, groups, parts);
        };
        if (!PinnedConvolutions::is_pinned(input, weight, gradient, arguments)) return by_libtorch(wanted);
        Tensor dx, dw, db;
        {
          const std::lock_guard one(one_at_a_time_);
          translated([&] {
            if (wanted[0]) dx = convolutions_.input_gradient(gradient, input, weight, arguments);
            if (wanted[1]) dw = convolutions_.weight_gradient(gradient, input, weight, arguments);
          });
        }
        if (wanted[0] && !dx.defined()) dx = std::get<0>(by_libtorch({true, false, false}));
        if (wanted[1] && !dw.defined()) dw = std::get<1>(by_libtorch({false, true, false}));
        if (wanted[2]) db = gradient.transpose(0, 1).flatten(1).sum(1);
        return {dx, dw, db};
      });
}

}  // namespace estrain::cuda

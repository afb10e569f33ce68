#include "core/engine/operators/deterministic.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/Resize.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/device/convolution_arguments.h"
#include "core/engine/device/quiet_warnings.h"
#include "core/engine/operators/composed/composed.h"
#include "core/engine/operators/registry.h"

namespace estrain::operators {
namespace {

using at::IntArrayRef;
using at::Tensor;
using Gradients = std::tuple<Tensor, Tensor>;

template <int sides>
Tensor adaptive_avg_pool_backward(const Tensor& gradient, const Tensor& input) {
  return composed::adaptive_avg_pool_backward(gradient, input, sides);
}
template <int sides>
Tensor adaptive_max_pool_backward(const Tensor& gradient, const Tensor& input, const Tensor& indices) {
  return composed::max_pool_backward(gradient, input, indices, sides);
}
template <int sides>
Tensor fractional_max_pool_backward(const Tensor& gradient, const Tensor& input, IntArrayRef, IntArrayRef,
                                    const Tensor& indices) {
  return composed::max_pool_backward(gradient, input, indices, sides);
}
Tensor max_pool3d_backward(const Tensor& gradient, const Tensor& input, IntArrayRef, IntArrayRef, IntArrayRef,
                           IntArrayRef, bool, const Tensor& indices) {
  return composed::max_pool_backward(gradient, input, indices, 3);
}
Tensor max_unpool3d(const Tensor& input, const Tensor& indices, IntArrayRef output, IntArrayRef, IntArrayRef) {
  return composed::max_unpool(input, indices, output);
}
template <composed::Padding kind>
Tensor pad_backward(const Tensor& gradient, const Tensor& input, IntArrayRef padding) {
  return composed::pad_backward(gradient, input, padding, kind);
}
Tensor weighted_bincount(const Tensor& values, const std::optional<Tensor>& weights, int64_t least) {
  return composed::weighted_bincount(values, *weights, least);
}
Tensor embedding_bag_max_backward(const Tensor& gradient, const Tensor&, const Tensor&, const Tensor& sizes,
                                  const Tensor& places, int64_t rows, bool, int64_t, const std::optional<Tensor>&,
                                  int64_t) {
  return composed::embedding_bag_max_backward(gradient, sizes, places, rows);
}
Gradients grid_sampler_backward(const Tensor& gradient, const Tensor& input, const Tensor& grid, int64_t interpolation,
                                int64_t padding, bool align_corners, std::array<bool, 2> wanted) {
  return composed::grid_sampler_backward(gradient, input, grid, interpolation, padding, align_corners, wanted);
}
// LibTorch calls cuDNN for this case alone.
Gradients cudnn_grid_sampler_backward(const Tensor& input, const Tensor& grid, const Tensor& gradient) {
  return composed::grid_sampler_backward(gradient, input, grid, composed::kBilinear, /*padding=*/0,
                                         /*align_corners=*/true, {true, true});
}

Tensor scatter_product(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, std::string_view) {
  return composed::scatter_reduce(self, dim, index, source, "prod", /*include_self=*/true);
}

// Returns whether LibTorch's own kernel has no repeatable bits in a call with these arguments.
using Condition = bool (*)(Arguments arguments);

bool has_weights(Arguments arguments) { return arguments[1].isTensor() && arguments[1].toTensor().defined(); }
bool is_maximum(Arguments arguments) { return arguments[7].toInt() == 2; }
bool is_floating(Arguments arguments) { return arguments[0].toTensor().is_floating_point(); }
bool multiplies(Arguments arguments) { return arguments[4].toStringView() == "multiply"; }
// Of equal maxima the order of arrival decides: 0 and -0 are equal.
bool is_no_sum(Arguments arguments) {
  return arguments[4].toStringView() != "sum" && arguments[4].toStringView() != "mean";
}
// CUB scans a line with partial results in the order of arrival. LibTorch has its own kernel for several lines. A line
// without elements needs no scan: as two lines it would be an empty tensor again, and be composed without end.
bool is_one_line(Arguments arguments) {
  const Tensor& self = arguments[0].toTensor();
  return self.numel() > 0 && self.dim() > 0 && self.numel() == self.size(arguments[1].toInt());
}

struct Row {
  const char* name;                   // without "aten::", with the overload
  c10::KernelFunction (*composed)();  // with the operator's arguments
  Condition condition = nullptr;      // none: all calls
  const char* writing = "";           // other overloads, which write the same result into given tensors; with spaces
};

template <auto function>
c10::KernelFunction by() {
  return c10::KernelFunction::makeFromUnboxedRuntimeFunction(function);
}

constexpr Row kRows[] = {
    {"_adaptive_avg_pool2d_backward", by<adaptive_avg_pool_backward<2>>},
    {"_adaptive_avg_pool3d_backward", by<adaptive_avg_pool_backward<3>>},
    {"_embedding_bag_dense_backward", by<embedding_bag_max_backward>, is_maximum},
    {"_logcumsumexp", by<composed::logcumsumexp>, is_one_line, "_logcumsumexp.out"},
    {"_upsample_bicubic2d_aa_backward", by<composed::upsample_bicubic2d_aa_backward>, nullptr,
     "_upsample_bicubic2d_aa_backward.grad_input"},
    {"_upsample_bilinear2d_aa_backward", by<composed::upsample_bilinear2d_aa_backward>, nullptr,
     "_upsample_bilinear2d_aa_backward.grad_input"},
    {"adaptive_max_pool2d_backward", by<adaptive_max_pool_backward<2>>, nullptr,
     "adaptive_max_pool2d_backward.grad_input"},
    {"adaptive_max_pool3d_backward", by<adaptive_max_pool_backward<3>>, nullptr,
     "adaptive_max_pool3d_backward.grad_input"},
    {"avg_pool3d_backward", by<composed::avg_pool3d_backward>, nullptr, "avg_pool3d_backward.grad_input"},
    {"bincount", by<weighted_bincount>, has_weights},
    {"cudnn_grid_sampler_backward", by<cudnn_grid_sampler_backward>},
    {"cumprod", by<composed::cumprod>, is_one_line, "cumprod_ cumprod.out"},
    {"fractional_max_pool2d_backward", by<fractional_max_pool_backward<2>>, nullptr,
     "fractional_max_pool2d_backward.grad_input"},
    {"fractional_max_pool3d_backward", by<fractional_max_pool_backward<3>>, nullptr,
     "fractional_max_pool3d_backward.grad_input"},
    {"grid_sampler_2d_backward", by<grid_sampler_backward>},
    {"grid_sampler_3d_backward", by<grid_sampler_backward>},
    {"histc", by<composed::histc>, is_floating, "histc.out"},
    {"index_reduce", by<composed::index_reduce>, nullptr, "index_reduce_ index_reduce.out"},
    {"kthvalue", by<composed::kthvalue>, nullptr, "kthvalue.values"},
    {"max_pool3d_with_indices_backward", by<max_pool3d_backward>, nullptr,
     "max_pool3d_with_indices_backward.grad_input"},
    {"max_unpool2d", by<composed::max_unpool>, nullptr, "max_unpool2d.out"},
    {"max_unpool3d", by<max_unpool3d>, nullptr, "max_unpool3d.out"},
    {"median.dim", by<composed::median>, nullptr, "median.dim_values"},
    {"nanmedian.dim", by<composed::nanmedian>, nullptr, "nanmedian.dim_values"},
    {"nll_loss2d_forward", by<composed::nll_loss2d_forward>, nullptr, "nll_loss2d_forward.output"},
    {"put_", by<composed::put_>},
    {"reflection_pad1d_backward", by<pad_backward<composed::Padding::reflection>>, nullptr,
     "reflection_pad1d_backward.grad_input"},
    {"reflection_pad3d_backward", by<pad_backward<composed::Padding::reflection>>, nullptr,
     "reflection_pad3d_backward.grad_input"},
    {"replication_pad1d_backward", by<pad_backward<composed::Padding::replication>>, nullptr,
     "replication_pad1d_backward.grad_input"},
    {"replication_pad2d_backward", by<pad_backward<composed::Padding::replication>>, nullptr,
     "replication_pad2d_backward.grad_input"},
    {"replication_pad3d_backward", by<pad_backward<composed::Padding::replication>>, nullptr,
     "replication_pad3d_backward.grad_input"},
    {"scatter.reduce", by<scatter_product>, multiplies, "scatter_.reduce scatter.reduce_out"},
    {"scatter_reduce.two", by<composed::scatter_reduce>, is_no_sum, "scatter_reduce_.two scatter_reduce.two_out"},
    {"upsample_bicubic2d_backward", by<composed::upsample_bicubic2d_backward>, nullptr,
     "upsample_bicubic2d_backward.grad_input"},
    {"upsample_bilinear2d_backward", by<composed::upsample_bilinear2d_backward>, nullptr,
     "upsample_bilinear2d_backward.grad_input"},
    {"upsample_linear1d_backward", by<composed::upsample_linear1d_backward>, nullptr,
     "upsample_linear1d_backward.grad_input"},
    {"upsample_trilinear3d_backward", by<composed::upsample_trilinear3d_backward>, nullptr,
     "upsample_trilinear3d_backward.grad_input"},
};

std::vector<std::string> overloads_of(const Row& row) {
  std::vector<std::string> names = {row.name};
  std::istringstream others(row.writing);
  for (std::string name; others >> name;) names.push_back(name);
  return names;
}

bool is_composed(const Row& row, Arguments arguments) { return row.condition == nullptr || row.condition(arguments); }

// LibTorch's own kernel of an operator, and the composed one for calls that meet the row's condition.
class Choice : public c10::OperatorKernel {
 public:
  Choice(const Row& row, OwnKernel own) : row_(row), own_(std::move(own)), composed_(row.composed()) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) const {
    const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
    if (is_composed(row_, Arguments(arguments.data(), arguments.size())))
      composed_.callBoxed(op, keys, stack);
    else
      own_.call_boxed(stack);
  }

 private:
  const Row& row_;
  OwnKernel own_;
  c10::KernelFunction composed_;
};

// An overload that writes into given tensors, through the overload that returns new tensors.
class Writing : public c10::OperatorKernel {
 public:
  explicit Writing(c10::OperatorHandle returning) : returning_(std::move(returning)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) const {
    const at::AutoDispatchBelowADInplaceOrView below;
    const std::vector<c10::Argument>& arguments = op.schema().arguments();
    const auto given = torch::jit::pop(*stack, arguments.size());
    torch::jit::Stack values(given.begin(), given.begin() + std::ssize(returning_.schema().arguments()));
    returning_.callBoxed(values);
    size_t next = 0;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const auto* const alias = arguments[i].alias_info();
      if (alias == nullptr || !alias->isWrite()) continue;
      const Tensor to = given[i].toTensor(), from = values.at(next++).toTensor();
      at::native::resize_output(to, from.sizes());
      to.copy_(from);
      stack->push_back(to);
    }
  }

 private:
  c10::OperatorHandle returning_;
};

// LibTorch's recurrent layers, above autograd.
constexpr std::string_view kRecurrent[] = {"gru.data",      "gru.input",      "lstm.data",     "lstm.input",
                                           "rnn_relu.data", "rnn_relu.input", "rnn_tanh.data", "rnn_tanh.input"};

class Recurrent : public c10::OperatorKernel {
 public:
  explicit Recurrent(OwnKernel own) : own_(std::move(own)) {}

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) const {
    const WithoutCudnn without;
    own_.call_boxed(stack);
  }

 private:
  OwnKernel own_;
};

template <typename Functor, typename... Parts>
torch::CppFunction boxed(Parts&&... parts) {
  return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Functor>(std::forward<Parts>(parts)...));
}

void put(const Row& row, torch::Library& library, c10::DispatchKey key) {
  const std::vector<std::string> names = overloads_of(row);
  library.impl(row.name, boxed<Choice>(row, OwnKernel(row.name, key)));
  for (size_t i = 1; i < names.size(); ++i) library.impl(names[i].c_str(), boxed<Writing>(operator_of(row.name)));
}

// Composed of deterministic operators for the portable kernels, and registered by them: in float32 alone.
bool is_ctc_loss(std::string_view name) { return name.starts_with("_ctc_loss"); }
OnGpu ctc_loss_on_gpu(std::string_view name, Arguments arguments) {
  if (arguments[0].toTensor().scalar_type() == at::kFloat) return OnGpu::composed;
  return name.starts_with("_ctc_loss_backward") ? OnGpu::raises : OnGpu::repeatable;
}

// Operators of the CUDA libraries, without overload; of the pinned operators (core/engine/cuda/pinned) the calls that
// are not pinned.
bool is_other_number(Arguments arguments) {
  const at::ScalarType type = arguments[0].toTensor().scalar_type();
  return type != at::kFloat && type != at::kBFloat16;
}
// LibTorch takes products with vectors to cuBLAS's mv and dot.
bool is_unpinned_product(Arguments arguments) {
  const auto is_vector = [](const c10::IValue& operand) { return operand.toTensor().dim() == 1; };
  return is_other_number(arguments) || is_vector(arguments[0]) || is_vector(arguments[1]);
}
bool pads_output_widely(const c10::IValue& transposed, const c10::IValue& output_padding, const c10::IValue& stride) {
  const std::vector<int64_t> added = output_padding.toIntVector(), steps = stride.toIntVector();
  const device::ConvolutionArguments arguments{
      .stride = steps, .padding = {}, .dilation = {}, .transposed = transposed.toBool(), .output_padding = added};
  return arguments.pads_output_widely();
}
bool is_unpinned_convolution(Arguments arguments) {
  return is_other_number(arguments) || pads_output_widely(arguments[6], arguments[7], arguments[3]);
}
bool is_unpinned_gradient(Arguments arguments) {
  return is_other_number(arguments) || pads_output_widely(arguments[7], arguments[8], arguments[4]);
}

struct LibraryRow {
  std::string_view name;
  Condition condition = nullptr;  // none: all calls
};
constexpr LibraryRow kUnpinned[] = {
    {"_addmm_activation"},
    {"addmm", is_other_number},
    {"addmm_", is_other_number},
    {"addmv"},
    {"addmv_"},
    {"baddbmm", is_other_number},
    {"baddbmm_", is_other_number},
    {"bmm", is_other_number},
    {"convolution", is_unpinned_convolution},
    {"convolution_backward", is_unpinned_gradient},
    {"dot"},
    {"linear", is_unpinned_product},
    {"matmul", is_unpinned_product},
    {"mm", is_other_number},
    {"mv"},
    {"vdot"},
};
constexpr std::string_view kLibraries[] = {"_fft_", "_linalg_", "linalg_"};  // cuFFT, cuSOLVER: prefixes
constexpr std::string_view kOwnOfLibTorch[] = {"linalg_cross", "linalg_vector_norm"};

bool is_unpinned(std::string_view name, Arguments arguments) {
  name = name.substr(0, name.find('.'));
  if (std::ranges::find(kOwnOfLibTorch, name) != std::end(kOwnOfLibTorch)) return false;
  if (std::ranges::any_of(kLibraries, [&](std::string_view prefix) { return name.starts_with(prefix); })) return true;
  return std::ranges::any_of(kUnpinned, [&](const LibraryRow& row) {
    return row.name == name && (row.condition == nullptr || row.condition(arguments));
  });
}

}  // namespace

const char* to_string(OnGpu kind) {
  switch (kind) {
    case OnGpu::repeatable:
      return "repeatable";
    case OnGpu::composed:
      return "composed";
    case OnGpu::unpinned:
      return "unpinned";
    case OnGpu::raises:
      break;
  }
  return "raises";
}

OnGpu on_gpu(std::string_view name, Arguments arguments) {
  constexpr std::string_view kSpace = "aten::";
  if (!name.starts_with(kSpace)) return OnGpu::repeatable;
  name.remove_prefix(kSpace.size());
  if (std::ranges::find(kRecurrent, name) != std::end(kRecurrent)) return OnGpu::composed;
  if (is_ctc_loss(name)) return ctc_loss_on_gpu(name, arguments);
  for (const Row& row : kRows) {
    const std::vector<std::string> names = overloads_of(row);
    if (std::ranges::find(names, name) == names.end()) continue;
    return is_composed(row, arguments) ? OnGpu::composed : OnGpu::repeatable;
  }
  return is_unpinned(name, arguments) ? OnGpu::unpinned : OnGpu::repeatable;
}

struct DeterministicOperators::Registrations {
  OperatorRegistry::DispatchPlace place;
  std::set<std::string> names{};
};

DeterministicOperators::DeterministicOperators(const device::ComputeDevice& device) {
  const device::QuietWarnings quiet;
  const c10::DispatchKey key = c10::computeDispatchKey(at::kFloat, at::kStrided, device.torch_device());
  registrations_.reset(new Registrations{OperatorRegistry::DispatchPlace(key)});
  OperatorRegistry::DispatchPlace& place = registrations_->place;
  for (const Row& row : kRows) put(row, place.kernels, key);
  for (const std::string_view name : kRecurrent)
    place.autograd.impl(name.data(), boxed<Recurrent>(OwnKernel(std::string(name), place.autograd_key)));
  OperatorRegistry registry(nullptr, &place, registrations_->names);
  registry.leave_refused();
  register_ctc_loss(registry);
}

DeterministicOperators::~DeterministicOperators() = default;

}  // namespace estrain::operators

#include "core/engine/operators/deterministic.h"

#include <algorithm>
#include <set>

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
// LibTorch calls cuDNN for this case alone.
Gradients cudnn_grid_sampler_backward(const Tensor& input, const Tensor& grid, const Tensor& gradient) {
  return composed::grid_sampler_backward(gradient, input, grid, composed::kBilinear, /*padding=*/0,
                                         /*align_corners=*/true, {true, true});
}

// Registers an operator for a device. LibTorch's own kernel may compute some cases of the operator, or raise its error.
using Put = void (*)(torch::Library& library, c10::DispatchKey key, const char* name);

template <auto function>
void put(torch::Library& library, c10::DispatchKey, const char* name) {
  library.impl(name, torch::CppFunction(function));
}

void put_bincount(torch::Library& library, c10::DispatchKey key, const char* name) {
  library.impl(
      name, torch::CppFunction([own = OwnKernel(name, key)](const Tensor& values, const std::optional<Tensor>& weights,
                                                            int64_t least) -> Tensor {
        if (weights && weights->defined()) return composed::weighted_bincount(values, *weights, least);
        return own.call<Tensor, const Tensor&, const std::optional<Tensor>&, c10::SymInt>(values, weights, least);
      }));
}

void put_embedding_bag(torch::Library& library, c10::DispatchKey key, const char* name) {
  constexpr int64_t kMaximum = 2;
  library.impl(
      name, torch::CppFunction([own = OwnKernel(name, key)](
                                   const Tensor& gradient, const Tensor& indices, const Tensor& bags,
                                   const Tensor& sizes, const Tensor& places, int64_t rows, bool scales, int64_t mode,
                                   const std::optional<Tensor>& factors, int64_t padding) -> Tensor {
        if (mode == kMaximum) return composed::embedding_bag_max_backward(gradient, sizes, places, rows);
        return own.call<Tensor, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, c10::SymInt,
                        bool, int64_t, const std::optional<Tensor>&, int64_t>(gradient, indices, bags, sizes, places,
                                                                              rows, scales, mode, factors, padding);
      }));
}

void put_grid_sampler(torch::Library& library, c10::DispatchKey key, const char* name) {
  using Wanted = std::array<bool, 2>;
  library.impl(
      name, torch::CppFunction([own = OwnKernel(name, key)](const Tensor& gradient, const Tensor& input,
                                                            const Tensor& grid, int64_t interpolation, int64_t padding,
                                                            bool align_corners, Wanted wanted) -> Gradients {
        if (interpolation == composed::kBilinear || interpolation == composed::kNearest)
          return composed::grid_sampler_backward(gradient, input, grid, interpolation, padding, align_corners, wanted);
        return own.call<Gradients, const Tensor&, const Tensor&, const Tensor&, int64_t, int64_t, bool, Wanted>(
            gradient, input, grid, interpolation, padding, align_corners, wanted);
      }));
}

struct Row {
  const char* name;  // without "aten::", with the overload
  Put put;
};

constexpr Row kComposed[] = {
    {"_adaptive_avg_pool2d_backward", put<adaptive_avg_pool_backward<2>>},
    {"_adaptive_avg_pool3d_backward", put<adaptive_avg_pool_backward<3>>},
    {"_embedding_bag_dense_backward", put_embedding_bag},
    {"_upsample_bicubic2d_aa_backward", put<composed::upsample_bicubic2d_aa_backward>},
    {"_upsample_bilinear2d_aa_backward", put<composed::upsample_bilinear2d_aa_backward>},
    {"adaptive_max_pool2d_backward", put<adaptive_max_pool_backward<2>>},
    {"adaptive_max_pool3d_backward", put<adaptive_max_pool_backward<3>>},
    {"avg_pool3d_backward", put<composed::avg_pool3d_backward>},
    {"bincount", put_bincount},
    {"cudnn_grid_sampler_backward", put<cudnn_grid_sampler_backward>},
    {"fractional_max_pool2d_backward", put<fractional_max_pool_backward<2>>},
    {"fractional_max_pool3d_backward", put<fractional_max_pool_backward<3>>},
    {"grid_sampler_2d_backward", put_grid_sampler},
    {"grid_sampler_3d_backward", put_grid_sampler},
    {"max_pool3d_with_indices_backward", put<max_pool3d_backward>},
    {"max_unpool2d", put<composed::max_unpool>},
    {"max_unpool3d", put<max_unpool3d>},
    {"median.dim", put<composed::median>},
    {"nll_loss2d_forward", put<composed::nll_loss2d_forward>},
    {"put_", put<composed::put_>},
    {"reflection_pad1d_backward", put<pad_backward<composed::Padding::reflection>>},
    {"reflection_pad3d_backward", put<pad_backward<composed::Padding::reflection>>},
    {"replication_pad1d_backward", put<pad_backward<composed::Padding::replication>>},
    {"replication_pad2d_backward", put<pad_backward<composed::Padding::replication>>},
    {"replication_pad3d_backward", put<pad_backward<composed::Padding::replication>>},
    {"upsample_bicubic2d_backward", put<composed::upsample_bicubic2d_backward>},
    {"upsample_bilinear2d_backward", put<composed::upsample_bilinear2d_backward>},
    {"upsample_linear1d_backward", put<composed::upsample_linear1d_backward>},
    {"upsample_trilinear3d_backward", put<composed::upsample_trilinear3d_backward>},
};

// Composed of deterministic operators for the portable kernels, and registered by them: in float32 alone.
constexpr std::string_view kPortable[] = {"_ctc_loss", "_ctc_loss_backward"};

// LibTorch raises an error, and nothing here replaces the kernel.
constexpr std::string_view kRaise[] = {"histc", "index_reduce", "index_reduce_", "nanmedian"};

std::string_view without_overload(std::string_view name) { return name.substr(0, name.find('.')); }

}  // namespace

const char* to_string(OnGpu kind) {
  switch (kind) {
    case OnGpu::repeatable:
      return "repeatable";
    case OnGpu::composed:
      return "composed";
    case OnGpu::raises:
      break;
  }
  return "raises";
}

OnGpu on_gpu(std::string_view name) {
  constexpr std::string_view kSpace = "aten::";
  if (!name.starts_with(kSpace)) return OnGpu::repeatable;
  name = without_overload(name.substr(kSpace.size()));
  if (std::ranges::find(kRaise, name) != std::end(kRaise)) return OnGpu::raises;
  const auto is_row = [&](const Row& row) { return without_overload(row.name) == name; };
  const bool is_composed =
      std::ranges::find(kPortable, name) != std::end(kPortable) || std::ranges::any_of(kComposed, is_row);
  return is_composed ? OnGpu::composed : OnGpu::repeatable;
}

struct DeterministicOperators::Registrations {
  OperatorRegistry::DispatchPlace place;
  std::set<std::string> names{};
};

DeterministicOperators::DeterministicOperators(const device::ComputeDevice& device) {
  const device::QuietWarnings quiet;
  const c10::DispatchKey key = c10::computeDispatchKey(at::kFloat, at::kStrided, device.torch_device());
  registrations_.reset(new Registrations{OperatorRegistry::DispatchPlace(key)});
  for (const Row& row : kComposed) row.put(registrations_->place.kernels, key, row.name);
  OperatorRegistry registry(nullptr, &registrations_->place, registrations_->names);
  registry.leave_refused();
  register_ctc_loss(registry);
}

DeterministicOperators::~DeterministicOperators() = default;

}  // namespace estrain::operators

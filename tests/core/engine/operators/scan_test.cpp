#include "core/engine/operators/scan.h"

#include <doctest/doctest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/library.h>
#include <torch/nn/modules/rnn.h>
#include <torch/types.h>

#include <algorithm>

#include "core/engine/device/cpu.h"
#include "core/engine/operators/portable.h"

namespace estrain::operators {
namespace {

device::CpuDevice cpu_device;

using torch::Tensor;

std::vector<OperatorUse> scan_work(const std::function<void()>& work, std::string_view layer = "body") {
  const PortableOperators portable(cpu_device);
  return scan({.replaced = &portable.names(), .layer = [layer] { return layer; }}, work);
}

const OperatorUse* find(const std::vector<OperatorUse>& uses, std::string_view name) {
  for (const OperatorUse& use : uses) {
    if (use.name == name) return &use;
  }
  return nullptr;
}

Coverage coverage_of(const std::vector<OperatorUse>& uses, std::string_view name) {
  const OperatorUse* use = find(uses, name);
  REQUIRE_MESSAGE(use != nullptr, name);
  return use->coverage;
}

TEST_CASE("operators of both passes are judged, composed ones by their parts") {
  const auto uses = scan_work([] {
    const Tensor x = torch::randn({4, 5}), w = torch::randn({3, 5}).requires_grad_(true);
    at::tensordot(x, w, {1}, {1}).relu().sum().backward();
  });
  CHECK(coverage_of(uses, "aten::mm") == Coverage::replaced);
  CHECK(find(uses, "aten::mm")->calls == 2);  // forward, and the gradient of w
  CHECK(coverage_of(uses, "aten::relu") == Coverage::exact);
  CHECK(coverage_of(uses, "aten::threshold_backward") == Coverage::exact);
  CHECK(coverage_of(uses, "aten::sum") == Coverage::replaced);
  CHECK(find(uses, "aten::tensordot") == nullptr);
}

TEST_CASE("an operator without a portable kernel is named first, with its layer, in the backward pass too") {
  const auto uses = scan_work(
      [] {
        const Tensor x = torch::rand({4, 5}).requires_grad_(true);
        at::erfinv(x * 0.5).lgamma().sum().backward();
      },
      "head");
  REQUIRE(uses.size() > 2);
  CHECK(uses[0].coverage == Coverage::uncovered);
  CHECK(coverage_of(uses, "aten::erfinv") == Coverage::uncovered);
  CHECK(coverage_of(uses, "aten::lgamma") == Coverage::uncovered);
  CHECK(find(uses, "aten::erfinv")->layers == std::vector<std::string>{"head"});
}

TEST_CASE("a replaced operator on another type is not covered") {
  const auto uses = scan_work([] {
    try {
      torch::zeros({2, 2}, torch::kDouble).mm(torch::zeros({2, 2}, torch::kDouble));
    } catch (const std::exception&) {  // refused as well
    }
  });
  const OperatorUse* use = find(uses, "aten::mm");
  REQUIRE(use != nullptr);
  CHECK(use->coverage == Coverage::uncovered);
  CHECK(use->which == "on Double");
}

TEST_CASE("what the portable kernels refuse is listed, and LibTorch's own computes on") {
  const auto uses = scan_work([] {
    const Tensor table = torch::rand({9, 4}).requires_grad_(true);
    const Tensor y = std::get<0>(at::embedding_bag(table, torch::tensor({1, 8, 3}), torch::tensor({0, 1}), false, 2));
    CHECK(y.sizes() == at::IntArrayRef{2, 4});
    y.sum().backward();
    CHECK(table.grad().defined());
    const Tensor half = torch::rand({2, 3, 8, 8}).to(torch::kBFloat16);
    CHECK((at::conv2d(half, torch::rand({4, 3, 3, 3}).to(torch::kBFloat16)).scalar_type() == torch::kBFloat16));
    const Tensor filters = torch::rand({2, 3, 3, 3}).requires_grad_(true);
    const Tensor wide = at::conv_transpose2d(torch::rand({1, 2, 4, 4}), filters, {}, 1, 0, /*output_padding=*/1, 1, 2);
    CHECK(wide.sizes() == at::IntArrayRef{1, 3, 9, 9});
    wide.sum().backward();
    CHECK((torch::rand({5}, torch::kDouble).cumprod(0).scalar_type() == torch::kDouble));
    CHECK((at::linalg_vector_norm(torch::rand({5}, torch::kDouble), 3).scalar_type() == torch::kDouble));
  });
  const auto has = [&](const char* name, const char* which) {
    return std::ranges::any_of(uses, [&](const OperatorUse& use) {
      return use.name == name && use.which == which && use.coverage == Coverage::uncovered;
    });
  };
  CHECK(has("aten::_embedding_bag", "with mode = \"max\""));
  CHECK(has("aten::_embedding_bag_backward", "with mode = \"max\""));
  CHECK(has("aten::convolution", "on BFloat16"));
  CHECK(has("aten::convolution", "with output_padding of a stride or more"));
  CHECK(has("aten::convolution_backward", "with output_padding of a stride or more"));
  CHECK(has("aten::cumprod", "on Double"));
  CHECK(has("aten::linalg_vector_norm", "on Double"));
}

TEST_CASE("a refusal in a backward pass of estrain's is listed, and ends the scan") {
  bool ended = false;
  const auto uses = scan_work([&] {
    const Tensor x = torch::randn({1, 2, 3, 4}).requires_grad_(true);
    const Tensor y = at::scaled_dot_product_attention(x, x, x);
    torch::autograd::grad({y.sum()}, {x}, {}, true, true);
    ended = true;
  });
  CHECK_FALSE(ended);
  CHECK(coverage_of(uses, "aten::scaled_dot_product_attention") == Coverage::uncovered);
  CHECK(uses[0].which == "with gradients of gradients");
}

TEST_CASE("operators without arithmetic are exact") {
  const auto uses = scan_work([] {
    const Tensor x = torch::rand({4, 5}), bags = torch::tensor({0, 2});
    x.sym_numel();
    at::promote_types(torch::kFloat, torch::kInt);
    at::_has_compatible_shallow_copy_type(x, x);
    torch::tensor({1, 2, 3}, torch::kInt).cumsum(0);
    at::histc(x, 4, 0, 1);
    x.remainder(0.3);
  });
  for (const OperatorUse& use : uses) {
    CAPTURE(use.name);
    CHECK(use.coverage != Coverage::uncovered);
  }
}

TEST_CASE("a number beside a tensor has the tensor's type") {
  const auto uses = scan_work([] {
    const Tensor x = torch::rand({4, 5}).requires_grad_(true);
    (1.0 - ((x + 1.0) * 2.0).pow(1.5)).sum().backward();
  });
  for (const OperatorUse& use : uses) {
    CAPTURE(use.name);
    CHECK(use.coverage != Coverage::uncovered);
  }
  CHECK(coverage_of(uses, "aten::add.Tensor") == Coverage::replaced);
}

TEST_CASE("recurrent networks are judged by their parts") {
  const auto uses = scan_work([] {
    torch::nn::LSTM layer(torch::nn::LSTMOptions(3, 4));
    std::get<0>(layer(torch::rand({5, 2, 3}))).sum().backward();
    torch::nn::GRU other(torch::nn::GRUOptions(3, 4));
    std::get<0>(other(torch::rand({5, 2, 3}))).sum().backward();
  });
  for (const OperatorUse& use : uses) {
    CAPTURE(use.name);
    CHECK(use.coverage != Coverage::uncovered);
  }
}

// Represents an operator that exists only on GPUs, like cudnn_batch_norm.
Tensor made_of_exact_parts(const Tensor& x) { return at::empty_like(x); }
TORCH_LIBRARY(estrain_scan_test, library) { library.def("fused(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(estrain_scan_test, Meta, library) { library.impl("fused", made_of_exact_parts); }

TEST_CASE("an operator that only the device at hand has a kernel for is judged as a whole") {
  const auto fused =
      c10::Dispatcher::singleton().findSchemaOrThrow("estrain_scan_test::fused", "").typed<Tensor(const Tensor&)>();
  const std::set<std::string> none;
  const auto uses = scan({.replaced = &none, .device = c10::DispatchKey::Meta, .layer = {}},
                         [&] { fused.call(at::empty({2}, at::TensorOptions(at::kMeta))); });
  CHECK(coverage_of(uses, "estrain_scan_test::fused") == Coverage::uncovered);
}

TEST_CASE("overloads that add up, or divide in a way of their own, are not exact") {
  CHECK(is_exact("aten::div.Tensor"));
  CHECK_FALSE(is_exact("aten::div.Tensor_mode"));
  CHECK_FALSE(is_exact("aten::topk"));
  CHECK(is_exact("aten::scatter.src"));
  CHECK_FALSE(is_exact("aten::scatter.reduce"));
  CHECK_FALSE(is_exact("aten::scatter_add"));
  CHECK_FALSE(is_exact("aten::index_add_"));
  CHECK(is_exact("aten::mul.Tensor"));
  CHECK_FALSE(is_exact("aten::multinomial"));
}

}  // namespace
}  // namespace estrain::operators

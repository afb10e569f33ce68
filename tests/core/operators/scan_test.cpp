#include "core/operators/scan.h"

#include <doctest/doctest.h>
#include <torch/torch.h>

#include "core/device/cpu_device.h"
#include "core/operators/portable.h"

namespace estrain::operators {
namespace {

device::CpuDevice cpu;

using torch::Tensor;

std::vector<OperatorUse> scan_work(const std::function<void()>& work, std::string_view layer = "body") {
  const PortableOperators portable(cpu);
  return scan({&portable.names(), [layer] { return layer; }}, work);
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
    at::linear(x, w).relu().sum().backward();
  });
  CHECK(coverage_of(uses, "aten::mm") == Coverage::replaced);
  CHECK(find(uses, "aten::mm")->calls == 2);  // forward, and the gradient of w
  CHECK(coverage_of(uses, "aten::relu") == Coverage::exact);
  CHECK(coverage_of(uses, "aten::threshold_backward") == Coverage::exact);
  CHECK(coverage_of(uses, "aten::sum") == Coverage::replaced);
  CHECK(find(uses, "aten::linear") == nullptr);
}

TEST_CASE("an operator without a portable kernel is named first, with its layer, in the backward pass too") {
  const auto uses = scan_work(
      [] {
        const Tensor x = torch::rand({4, 5}).requires_grad_(true);
        at::erfinv(x * 0.5).cumsum(1).sum().backward();
      },
      "head");
  REQUIRE(uses.size() > 2);
  CHECK(uses[0].coverage == Coverage::uncovered);
  CHECK(coverage_of(uses, "aten::erfinv") == Coverage::uncovered);
  CHECK(coverage_of(uses, "aten::cumsum") == Coverage::uncovered);
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
  CHECK(use->type == "Double");
}

TEST_CASE("overloads that add up are not exact") {
  CHECK(is_exact("aten::scatter.src"));
  CHECK_FALSE(is_exact("aten::scatter.reduce"));
  CHECK_FALSE(is_exact("aten::scatter_add"));
  CHECK_FALSE(is_exact("aten::index_add_"));
  CHECK(is_exact("aten::mul.Tensor"));
  CHECK_FALSE(is_exact("aten::multinomial"));
}

}  // namespace
}  // namespace estrain::operators

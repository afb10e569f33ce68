// The operators without a deterministic GPU kernel, on a simulated GPU, where LibTorch's own CUDA code raises the
// errors.

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <doctest/doctest.h>

#include <set>

#include "core/engine/cuda/determinism.h"
#include "core/engine/cuda/pinned/pinned_operators.h"
#include "core/engine/device/cpu.h"
#include "core/engine/operators/deterministic.h"
#include "tests/core/engine/cuda/simulated.h"
#include "tests/core/engine/operators/nondeterministic_cases.h"
#include "tests/scratch_folder.h"

namespace estrain::cuda {
namespace {

using operators::NondeterministicCase;

// A GPU of LibTorch alone.
class Gpu : public device::CpuDevice {
 public:
  c10::Device torch_device() const override { return gpu(); }
};

bool raises(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return std::string(error.what_without_backtrace()).find("deterministic implementation") != std::string::npos;
  }
  return false;
}

TEST_CASE("LibTorch raises an error, and composed operators take its place") {
  const std::vector<NondeterministicCase> cases = operators::nondeterministic_cases();
  at::globalContext().setDeterministicAlgorithms(false, false);  // LibTorch's CPU kernels raise errors, too
  std::vector<std::vector<at::Tensor>> expected;
  for (const NondeterministicCase& each : cases) {
    at::manual_seed(expected.size());
    expected.push_back(each.call([](const at::Tensor& tensor) { return tensor; }));
  }
  compute_deterministically(Tf32::never);
  for (const NondeterministicCase& each : cases) {
    CAPTURE(each.name);
    CHECK(raises([&] { each.call(on_gpu); }) != each.is_silent);
  }
  Gpu device;
  const ScratchFolder folder;
  const PinnedOperators products({.run = folder / "algorithms.jsonl"}, "a simulated GPU");
  const operators::DeterministicOperators composed(device);
  for (size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(cases[i].name);
    at::manual_seed(i);
    const std::vector<at::Tensor> found = cases[i].call(on_gpu);
    for (size_t k = 0; k < found.size(); ++k)
      CHECK(at::allclose(found[k].cpu(), expected[i][k], 1e-4, 1e-5, /*equal_nan=*/true));
  }
}

TEST_CASE("what raises an error still") {
  compute_deterministically(Tf32::never);
  Gpu device;
  const operators::DeterministicOperators composed(device);
  const at::Tensor x = on_gpu(at::rand({7, 1, 5}, at::kDouble)), targets = on_gpu(at::ones({1, 2}, at::kLong));
  const auto [loss, alpha] = at::_ctc_loss(x, targets, {7}, {2});
  CHECK(raises([&, loss = loss, alpha = alpha] {
    at::_ctc_loss_backward(loss, x, targets, at::IntArrayRef{7}, at::IntArrayRef{2}, loss, alpha, 0);
  }));
}

struct RecurrentLayer {
  std::string name;
  int64_t gates;
  bool has_cell = false;
};

// Calls the layer on a whole batch (overload "input") or on packed sequences ("data"). The parameters are drawn anew.
std::vector<at::Tensor> call_recurrent(const RecurrentLayer& layer, bool is_packed, const operators::To& to) {
  constexpr int64_t kWidth = 4;
  const int64_t rows = layer.gates * kWidth;
  std::vector<at::Tensor> parameters, start(layer.has_cell ? 2 : 1);
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{rows, 3}, {rows, kWidth}, {rows}, {rows}})
    parameters.push_back(to(at::randn(sizes)).requires_grad_());
  for (at::Tensor& each : start) each = to(at::randn({1, 2, kWidth}));
  torch::jit::Stack stack;
  stack.emplace_back(to(at::randn(is_packed ? std::vector<int64_t>{8, 3} : std::vector<int64_t>{5, 2, 3})));
  if (is_packed) stack.emplace_back(at::tensor({2, 2, 2, 1, 1}, at::kLong));
  stack.emplace_back(layer.has_cell ? c10::IValue(start) : c10::IValue(start[0]));
  torch::jit::push(stack, parameters, true, 1, 0.0, true, false);
  if (!is_packed) stack.emplace_back(false);
  c10::Dispatcher::singleton()
      .findSchemaOrThrow(("aten::" + layer.name).c_str(), is_packed ? "data" : "input")
      .callBoxed(stack);
  std::vector<at::Tensor> results;
  for (const c10::IValue& result : stack) results.push_back(result.toTensor());
  results[0].sum().backward();
  results.push_back(parameters[0].grad());
  return results;
}

TEST_CASE("recurrent layers are composed, without cuDNN") {
  compute_deterministically(Tf32::never);
  Gpu device;
  const ScratchFolder folder;
  const PinnedOperators products({.run = folder / "algorithms.jsonl"}, "a simulated GPU");
  const operators::DeterministicOperators composed(device);
  for (const RecurrentLayer& layer : {RecurrentLayer{"lstm", 4, true}, {"gru", 3}, {"rnn_tanh", 1}, {"rnn_relu", 1}}) {
    for (const bool is_packed : {false, true}) {
      CAPTURE(layer.name);
      CAPTURE(is_packed);
      at::manual_seed(1);
      const auto expected = call_recurrent(layer, is_packed, [](const at::Tensor& tensor) { return tensor; });
      at::manual_seed(1);
      const auto found = call_recurrent(layer, is_packed, on_gpu);
      for (size_t k = 0; k < found.size(); ++k) CHECK(at::allclose(found[k].cpu(), expected[k], 1e-4, 1e-5));
    }
  }
  CHECK(at::globalContext().userEnabledCuDNN());
}

}  // namespace
}  // namespace estrain::cuda

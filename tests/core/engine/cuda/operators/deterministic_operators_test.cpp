// The operators without a deterministic GPU kernel, on a simulated GPU, where LibTorch's own CUDA code raises the
// errors.

#include <ATen/ATen.h>
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

}  // namespace
}  // namespace estrain::cuda

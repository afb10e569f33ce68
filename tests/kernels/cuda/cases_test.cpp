// Compares the CUDA kernels' own code, run by the CPU, with the CPU's kernels: every family, on shapes and values drawn
// from seeds, all bits.

#include "tests/kernels/cuda/cases.h"

#include <doctest/doctest.h>

#include <vector>

#include "kernels/device_updates.h"
#include "tests/kernels/cuda/device_under_test.h"
#include "tests/kernels/cuda/emulation/grid.h"

using namespace estrain::kernels;

TEST_CASE("CUDA kernels give the CPU kernels' bits") {
  for (const test::Case& one : test::all_cases()) {
    const std::string family = one.family;
    CAPTURE(family);
    const int64_t before = cuda::emulation::launches();
    for (uint32_t seed = 0; seed < 144; ++seed) {
      CAPTURE(seed);
      CHECK(one.run(seed) == "");
    }
    CHECK(cuda::emulation::launches() - before > 70);
  }
}

TEST_CASE("Small parameters share launches") {
  constexpr size_t arrays = 161, each = 64;  // as many as ResNet-50 has
  std::vector<float> values(arrays * each, 1.5f), sums(arrays * each);
  UpdateDigest digest;
  std::vector<FoldPiece> folds;
  std::vector<DigestPiece> digests;
  std::vector<UpdatePiece> updates;
  for (size_t i = 0; i < arrays; ++i) {
    float* const at = values.data() + i * each;
    folds.push_back({at, i * each, each});
    digests.push_back({at, each, 0, &digest.parameter});
    updates.push_back(
        {.n = each, .gradient = at, .parameter = at, .new_parameter = &sums[i * each], .digest = &digest});
  }
  const DeviceQueue& queue = *test::on_device().device;
  const auto launches_of = [](auto call) {
    const int64_t before = cuda::emulation::launches();
    call();
    return cuda::emulation::launches() - before;
  };
  CHECK(launches_of([&] { queue.updates->fold_scaled(sums.data(), {}, 0.5f, folds, queue); }) == 2);
  CHECK(launches_of([&] { queue.updates->digest(digests, queue); }) == 3);
  CHECK(launches_of([&] { queue.updates->update(Sgd{}, updates, nullptr, queue); }) == 5);
}

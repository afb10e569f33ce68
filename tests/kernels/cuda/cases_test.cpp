// The CUDA kernels' own code, run by the CPU, against the CPU's kernels: every family on shapes and values drawn from
// seeds, all bits.

#include "tests/kernels/cuda/cases.h"

#include <doctest/doctest.h>

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

#pragma once
// A run's file of choices, and small whole numbers: sums have no rounding, and every algorithm gives the same result.

#include <ATen/ops/randint.h>

#include <string>

#include "core/base/files/files.h"
#include "core/state/algorithms/pinning.h"
#include "tests/core/engine/cuda/simulated.h"
#include "tests/scratch_folder.h"

namespace estrain::cuda {

class RunOfChoices {
 public:
  // The choices as seen by a worker of the run.
  algorithms::PinnedAlgorithms worker() {
    return algorithms::PinnedAlgorithms(
        {.run = path_, .chosen = [this](const algorithms::Choice&, size_t) { ++measured; }}, "a simulated GPU",
        "fakes 1");
  }

  int measured = 0;  // number of operations with an algorithm chosen by measuring

 private:
  ScratchFolder folder_;
  std::string path_ = folder_.path() + "/algorithms.jsonl";
};

inline at::Tensor whole_numbers(at::IntArrayRef sizes) { return at::randint(-4, 5, sizes, at::kFloat); }

}  // namespace estrain::cuda

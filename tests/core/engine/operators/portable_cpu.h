#pragma once
// The CPU for tests of the portable operators.

#include <torch/types.h>

#include "core/engine/device/cpu.h"
#include "core/engine/operators/portable.h"

namespace estrain::operators {

inline device::CpuDevice cpu;

// Relative to the largest element of `expected`.
inline double largest_error(const torch::Tensor& got, const torch::Tensor& expected) {
  return (got.to(torch::kDouble) - expected).abs().max().item<double>() / (expected.abs().max().item<double>() + 1e-30);
}

}  // namespace estrain::operators

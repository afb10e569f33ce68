#pragma once
// Operators that models here need and for which LibTorch has no deterministic GPU kernel, composed of operators that
// have one. Any other operator without one throws when it is called (determinism.h).

#include <torch/library.h>

namespace estrain::cuda {

class DeterministicOperators {
 public:
  // During its lifetime they replace LibTorch's. Kernels registered later replace them.
  DeterministicOperators();

 private:
  torch::Library library_;
};

}  // namespace estrain::cuda

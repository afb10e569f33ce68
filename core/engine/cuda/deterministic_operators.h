#pragma once
// Operators of the models here for which LibTorch has no deterministic GPU kernel, composed of deterministic operators.
// Every further operator without a deterministic kernel throws at its call (determinism.h).

#include <torch/library.h>

namespace estrain::cuda {

class DeterministicOperators {
 public:
  // During the object's lifetime these operators replace LibTorch's. Kernels registered later replace these operators.
  DeterministicOperators();

 private:
  torch::Library library_;
};

}  // namespace estrain::cuda

#pragma once
// Operators for which LibTorch has no deterministic kernel on GPUs, and that models here need: made of others that
// have one. Whatever else lacks one throws when it is called (determinism.h).

#include <torch/library.h>

namespace estrain::cuda {

class DeterministicOperators {
 public:
  // From here to its destruction they take the place of LibTorch's. Kernels that are registered later take theirs.
  DeterministicOperators();

 private:
  torch::Library library_;
};

}  // namespace estrain::cuda

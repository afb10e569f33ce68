#pragma once
// Makes the tensors of a model and draws their first values.
//
// Bits: with a CPU generator seeded s, a model built through this class holds what Python's PyTorch gives after
// `torch.manual_seed(s); model = Model()`. So every draw is made in the order of the Python constructors, including the
// default initialisations that a model overwrites later: a draw left out would shift all that follow.
//
// A worker whose parameters are about to be bound to memory that holds them already skips: then no draw is made and no
// memory is touched, so that its start costs address space only.

#include <ATen/core/Generator.h>
#include <torch/types.h>

#include <optional>

namespace estrain::model {

class Initializer {
 public:
  // Draws from `generator` (a CPU generator), which is advanced.
  static Initializer draw(at::Generator generator) { return Initializer(std::move(generator)); }
  // Leaves every tensor as it was allocated: undefined values until the caller writes them.
  static Initializer skip() { return Initializer(std::nullopt); }

  // Uninitialised memory on the CPU; callers fill it with one of the functions below.
  torch::Tensor allocate(torch::IntArrayRef shape, torch::Dtype dtype = torch::kFloat) const;

  void fill(torch::Tensor tensor, double value);
  void uniform(torch::Tensor tensor, double low, double high);
  void normal(torch::Tensor tensor, double std);

  // What torch.nn.Linear and torch.nn.Conv2d start from: U(-b, b) with b = 1 / sqrt(fan_in), computed for weights by
  // way of kaiming_uniform_(a = sqrt(5)), which rounds differently. `bias` may be undefined.
  void torch_default(torch::Tensor weight, torch::Tensor bias);

  // kaiming_normal_(mode = "fan_out", nonlinearity = "relu"): torchvision's convolutions.
  void kaiming_normal_fan_out(torch::Tensor weight);

 private:
  explicit Initializer(std::optional<at::Generator> generator) : generator_(std::move(generator)) {}

  std::optional<at::Generator> generator_;  // none: skip
};

}  // namespace estrain::model

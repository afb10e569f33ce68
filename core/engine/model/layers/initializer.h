#pragma once
// An Initializer allocates the tensors of a model and draws the initial values.
//
// Bits: with a CPU generator seeded with s, a model built through this class has the values of Python's PyTorch after
// `torch.manual_seed(s); model = Model()`. So every draw follows the order of the Python constructors, including
// default initialisations that a model overwrites later: omitting a draw would shift all later draws.
//
// skip() is for a worker that will bind the parameters to memory with values: the worker draws nothing and touches no
// memory, so the start of the worker costs only address space.

#include <ATen/core/Generator.h>
#include <torch/types.h>

#include <optional>

namespace estrain::model {

class Initializer {
 public:
  // Draws from `generator` (a CPU generator). Each draw advances the generator.
  static Initializer draw(at::Generator generator) { return Initializer(std::move(generator)); }
  // Leaves every tensor uninitialised until the caller writes the values.
  static Initializer skip() { return Initializer(std::nullopt); }

  // Uninitialised memory on the CPU; one of the functions below fills the memory.
  torch::Tensor allocate(torch::IntArrayRef shape, torch::Dtype dtype = torch::kFloat) const;

  void fill(const torch::Tensor& tensor, double value);
  void uniform(const torch::Tensor& tensor, double low, double high);
  void normal(const torch::Tensor& tensor, double std);

  // The default of torch.nn.Linear and torch.nn.Conv2d: U(-b, b) with b = 1 / sqrt(fan_in), computed for weights by
  // kaiming_uniform_(a = sqrt(5)), which rounds differently. `bias` may be undefined.
  void torch_default(const torch::Tensor& weight, const torch::Tensor& bias);

  // kaiming_normal_(mode = "fan_out", nonlinearity = "relu"), for torchvision's convolutions.
  void kaiming_normal_fan_out(const torch::Tensor& weight);

 private:
  explicit Initializer(std::optional<at::Generator> generator) : generator_(std::move(generator)) {}

  std::optional<at::Generator> generator_;  // empty: skip
};

}  // namespace estrain::model

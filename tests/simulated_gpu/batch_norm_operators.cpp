#include "tests/simulated_gpu/batch_norm_operators.h"

#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>

#include <map>

namespace estrain::simulated {
namespace {

using at::Tensor;
using torch::jit::Stack;

std::optional<Tensor> optional(const c10::IValue& value) { return value.toOptional<Tensor>(); }

// (input, weight, bias, running_mean, running_var, training, momentum, eps) -> (output, save_mean, save_invstd)
Stack native(const Stack& given) {
  const bool training = given[5].toBool();
  auto [output, mean, invstd] =
      at::native_batch_norm(given[0].toTensor(), optional(given[1]), optional(given[2]), optional(given[3]),
                            optional(given[4]), training, given[6].toDouble(), given[7].toDouble());
  if (!training) mean = invstd = Tensor();  // CUDA's have another size than the CPU's; they are never read
  return {output, mean, invstd};
}

// native() with a fourth result -> (output, save_mean, save_invstd, reserve): only cuDNN reads the last.
Stack of_cudnn(const Stack& given) {
  Stack results = native(given);
  results.emplace_back(Tensor());
  return results;
}

// (input, grad_output, weight, running_mean, running_var, save_mean, save_invstd, epsilon, reserve)
//   -> (grad_input, grad_weight, grad_bias)
Stack of_cudnn_backward(const Stack& given) {
  auto [input, weight, bias] = at::native_batch_norm_backward(
      given[1].toTensor(), given[0].toTensor(), optional(given[2]), optional(given[3]), optional(given[4]),
      optional(given[5]), optional(given[6]), /*train=*/true, given[7].toDouble(), {true, true, true});
  return {input, weight, bias};
}

const std::map<std::string, BatchNorm> kBatchNorms = {
    {"aten::native_batch_norm", native},
    {"aten::cudnn_batch_norm", of_cudnn},
    {"aten::cudnn_batch_norm_backward", of_cudnn_backward},
};

}  // namespace

BatchNorm batch_norm_of(const std::string& name) {
  const auto found = kBatchNorms.find(name);
  return found == kBatchNorms.end() ? nullptr : found->second;
}

}  // namespace estrain::simulated

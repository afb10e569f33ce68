#include "tests/simulated_gpu/layer_operators.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/convolution.h>
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

// (input, weight, padding, stride, dilation, groups, benchmark, deterministic, allow_tf32) -> output
Stack convolution_of_cudnn(const Stack& given) {
  const auto numbers = [&](size_t place) { return given[place].toIntVector(); };
  return {at::convolution(given[0].toTensor(), given[1].toTensor(), {}, numbers(3), numbers(2), numbers(4),
                          /*transposed=*/false, /*output_padding=*/{0}, given[5].toInt())};
}

// (input_gates, hidden_gates, cx, input_bias, hidden_bias) -> (hy, cy, workspace: the four gates)
Stack lstm_cell(const Stack& given) {
  Tensor sums = given[0].toTensor() + given[1].toTensor();
  for (const size_t bias : {3, 4})
    if (const auto added = optional(given[bias]); added && added->defined()) sums = sums + *added;
  const std::vector<Tensor> gates = sums.chunk(4, 1);
  const Tensor input = gates[0].sigmoid(), forget = gates[1].sigmoid(), cell = gates[2].tanh(),
               output = gates[3].sigmoid();
  const Tensor cy = forget * given[2].toTensor() + input * cell;
  return {output * cy.tanh(), cy, at::cat({input, forget, cell, output}, 1)};
}

// (grad_hy, grad_cy, cx, cy, workspace, has_bias) -> (grad_gates, grad_cx, grad_bias)
Stack lstm_cell_backward(const Stack& given) {
  const Tensor cx = given[2].toTensor(), squashed = given[3].toTensor().tanh();
  const std::vector<Tensor> gates = given[4].toTensor().chunk(4, 1);
  const Tensor &input = gates[0], &forget = gates[1], &cell = gates[2], &output = gates[3];
  const auto or_zeros = [&](const c10::IValue& gradient) {
    const auto given_one = optional(gradient);
    return given_one && given_one->defined() ? *given_one : cx * 0;
  };
  const Tensor dh = or_zeros(given[0]), dc = or_zeros(given[1]) + dh * output * (1 - squashed * squashed);
  const Tensor gradients = at::cat({dc * cell * input * (1 - input), dc * cx * forget * (1 - forget),
                                    dc * input * (1 - cell * cell), dh * squashed * output * (1 - output)},
                                   1);
  return {gradients, dc * forget, given[5].toBool() ? gradients.sum(0) : Tensor()};
}

std::vector<Tensor> three_gates(const c10::IValue& sums, const c10::IValue& bias) {
  const auto added = optional(bias);
  return (added && added->defined() ? sums.toTensor() + *added : sums.toTensor()).chunk(3, 1);
}

// (input_gates, hidden_gates, hx, input_bias, hidden_bias) -> (hy, workspace)
Stack gru_cell(const Stack& given) {
  const std::vector<Tensor> in = three_gates(given[0], given[3]), hidden = three_gates(given[1], given[4]);
  const Tensor hx = given[2].toTensor(), reset = (in[0] + hidden[0]).sigmoid(), keep = (in[1] + hidden[1]).sigmoid();
  const Tensor fresh = (in[2] + reset * hidden[2]).tanh();
  return {fresh + keep * (hx - fresh), at::cat({reset, keep, fresh, hx, hidden[2]}, 1)};
}

// (grad_hy, workspace, has_bias) -> (grad_input_gates, grad_hidden_gates, grad_hx, grad_input_bias, grad_hidden_bias)
Stack gru_cell_backward(const Stack& given) {
  const Tensor dh = given[0].toTensor();
  const std::vector<Tensor> saved = given[1].toTensor().chunk(5, 1);
  const Tensor &reset = saved[0], &keep = saved[1], &fresh = saved[2], &hx = saved[3], &hidden = saved[4];
  const Tensor of_keep = dh * (hx - fresh) * (1 - keep) * keep, of_fresh = dh * (1 - keep) * (1 - fresh * fresh);
  const Tensor of_reset = of_fresh * hidden * (1 - reset) * reset;
  const Tensor input = at::cat({of_reset, of_keep, of_fresh}, 1);
  const Tensor inner = at::cat({of_reset, of_keep, of_fresh * reset}, 1);
  const bool has_bias = given[2].toBool();
  return {input, inner, dh * keep, has_bias ? input.sum(0) : Tensor(), has_bias ? inner.sum(0) : Tensor()};
}

const std::map<std::string, LayerOperator> kLayerOperators = {
    {"aten::_thnn_fused_gru_cell", gru_cell},
    {"aten::_thnn_fused_gru_cell_backward", gru_cell_backward},
    {"aten::_thnn_fused_lstm_cell", lstm_cell},
    {"aten::_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward},
    {"aten::cudnn_convolution", convolution_of_cudnn},
    {"aten::native_batch_norm", native},
    {"aten::cudnn_batch_norm", of_cudnn},
    {"aten::cudnn_batch_norm_backward", of_cudnn_backward},
};

}  // namespace

LayerOperator layer_operator_of(const std::string& name) {
  const auto found = kLayerOperators.find(name);
  return found == kLayerOperators.end() ? nullptr : found->second;
}

}  // namespace estrain::simulated

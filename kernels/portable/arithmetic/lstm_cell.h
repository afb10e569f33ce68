#pragma once
// One cell of kernels/portable/lstm.h.

#include "kernels/portable/arithmetic/hyperbolic.h"
#include "kernels/portable/arithmetic/sigmoid.h"

namespace estrain::kernels::ESTRAIN_ISA {

struct LstmGates {
  Floats input, forget, candidate, output;
};
struct LstmCell {
  LstmGates gates;
  Floats cell, squashed, hidden;  // squashed = tanh(cell)
};

// `hidden_part`: the previous step's share of the gates; `input_part`: the input's.
ESTRAIN_FUNCTION LstmCell lstm_cell(const LstmGates& hidden_part, const LstmGates& input_part, Floats cell_before) {
  LstmCell now;
  now.gates.input = sigmoid(hidden_part.input + input_part.input);
  now.gates.forget = sigmoid(hidden_part.forget + input_part.forget);
  now.gates.candidate = hyperbolic_tangent(hidden_part.candidate + input_part.candidate);
  now.gates.output = sigmoid(hidden_part.output + input_part.output);
  const Floats kept = now.gates.forget * cell_before;
  const Floats added = now.gates.input * now.gates.candidate;
  now.cell = kept + added;
  now.squashed = hyperbolic_tangent(now.cell);
  now.hidden = now.gates.output * now.squashed;
  return now;
}

ESTRAIN_FUNCTION Floats sigmoid_slope(Floats result) { return result * (1.0f - result); }
ESTRAIN_FUNCTION Floats tanh_slope(Floats result) { return fused(negated(result), result, broadcast(1.0f)); }

// The gradient that reaches the cell through `hidden`.
ESTRAIN_FUNCTION Floats lstm_cell_gradient(Floats hidden_gradient, Floats output_gate, Floats squashed) {
  return (hidden_gradient * output_gate) * tanh_slope(squashed);
}

// Gradients of the arguments of the gates' functions.
ESTRAIN_FUNCTION LstmGates lstm_gate_gradients(const LstmGates& gates, Floats squashed, Floats cell_before,
                                               Floats hidden_gradient, Floats cell_gradient) {
  return {(cell_gradient * gates.candidate) * sigmoid_slope(gates.input),
          (cell_gradient * cell_before) * sigmoid_slope(gates.forget),
          (cell_gradient * gates.input) * tanh_slope(gates.candidate),
          (hidden_gradient * squashed) * sigmoid_slope(gates.output)};
}

}  // namespace estrain::kernels::ESTRAIN_ISA

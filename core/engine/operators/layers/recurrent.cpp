// LSTM (kernels/portable/lstm.h). LibTorch would compose each step of a layer of a dozen operators.

#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <tuple>
#include <vector>

#include "core/engine/operators/float_tensor.h"
#include "core/engine/operators/registry.h"
#include "kernels/portable/lstm.h"

namespace estrain::operators {
namespace {

using at::Tensor;
using at::TensorList;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
namespace portable = kernels::portable;
using Three = std::tuple<Tensor, Tensor, Tensor>;

constexpr const char* kName = "lstm";

portable::LstmShape shape_of(const Tensor& gates, const Tensor& weight) {
  return {gates.size(0), gates.size(1), weight.size(1)};
}

// One direction of a layer. In: the input's part of the gates [steps, samples, 4 * width], the start's hidden and cell,
// weight and bias of the hidden values. Out: the hidden values of all steps, and the last hidden and cell.
class LayerFunction : public torch::autograd::Function<LayerFunction> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& input_gates, const Tensor& hidden,
                               const Tensor& cell, const Tensor& weight, const std::optional<Tensor>& bias) {
    const Tensor from = floats(kName, input_gates), h = floats(kName, hidden), c = floats(kName, cell);
    const Tensor w = floats(kName, weight), b = floats(kName, bias);
    const portable::LstmShape shape = shape_of(from, w);
    const auto new_cells = [&] { return new_floats({shape.steps, shape.samples, shape.width}, from); };
    const Tensor gates = new_like(from), cells = new_cells(), squashed = new_cells(), out = new_cells();
    const Tensor turned = w.t().contiguous();
    portable::LstmForward forward;
    forward.input_gates = from.const_data_ptr<float>();
    forward.turned_weight = turned.const_data_ptr<float>();
    forward.bias = data_or_null(b);
    forward.start = {h.const_data_ptr<float>(), c.const_data_ptr<float>()};
    forward.gates = gates.mutable_data_ptr<float>();
    forward.cells = cells.mutable_data_ptr<float>();
    forward.squashed = squashed.mutable_data_ptr<float>();
    forward.hidden = out.mutable_data_ptr<float>();
    portable::lstm(shape, forward, execution_on(from, h, c, w, b));
    context->save_for_backward({h, c, w, gates, cells, squashed, out});
    context->saved_data["bias"] = b.defined();
    context->set_materialize_grads(false);
    return {out, out.select(0, -1).clone(), cells.select(0, -1).clone()};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    // The kernel's gradients have no graph: second gradients would silently lack a part.
    if (at::GradMode::is_enabled()) refuse_case(kName, "gradients of gradients");
    const variable_list saved = context->get_saved_variables();
    const Tensor &h = saved[0], &c = saved[1], &w = saved[2], &gates = saved[3], &cells = saved[4],
                 &squashed = saved[5], &out = saved[6];
    const portable::LstmShape shape = shape_of(gates, w);
    const Tensor output = gradients[0].defined() ? floats(kName, gradients[0]) : Tensor();
    const auto carried = [](const Tensor& gradient, const Tensor& like) {
      return gradient.defined() ? gradient.clone(at::MemoryFormat::Contiguous) : at::zeros_like(like);
    };
    const Tensor dh = carried(gradients[1], h), dc = carried(gradients[2], c), dgates = new_like(gates);
    const bool wants_bias = context->saved_data["bias"].toBool() && context->needs_input_grad(4);
    Tensor dw, db, scratch;
    if (context->needs_input_grad(3)) dw = new_like(w);
    if (wants_bias) {
      db = new_floats({w.size(0)}, w);
      scratch = new_like(db);
    }
    const auto place = [](const Tensor& tensor) {
      return tensor.defined() ? tensor.mutable_data_ptr<float>() : nullptr;
    };
    portable::LstmBackward backward;
    backward.weight = w.const_data_ptr<float>();
    backward.start = {h.const_data_ptr<float>(), c.const_data_ptr<float>()};
    backward.gates = gates.const_data_ptr<float>();
    backward.cells = cells.const_data_ptr<float>();
    backward.squashed = squashed.const_data_ptr<float>();
    backward.hidden = out.const_data_ptr<float>();
    backward.output_gradient = data_or_null(output);
    backward.carried_hidden = place(dh);
    backward.carried_cell = place(dc);
    backward.has_hidden = gradients[1].defined() || !output.defined();
    backward.has_cell = gradients[2].defined();
    backward.gate_gradient = place(dgates);
    backward.weight_gradient = place(dw);
    backward.bias_gradient = place(db);
    backward.step_bias = place(scratch);
    portable::lstm_backward(shape, backward, execution_on(w, h, c, gates, cells, squashed, out, output, dh, dc));
    return {dgates, dh, dc, dw, db};
  }
};

// Weights and biases for one direction of a layer.
struct Parameters {
  Tensor input_weight, hidden_weight;
  std::optional<Tensor> input_bias, hidden_bias;
};

Parameters parameters_of(TensorList list, size_t direction, bool has_biases) {
  const size_t first = direction * (has_biases ? 4 : 2);
  Parameters parameters{list[first], list[first + 1], {}, {}};
  if (has_biases) {
    parameters.input_bias = list[first + 2];
    parameters.hidden_bias = list[first + 3];
  }
  return parameters;
}

Three run_direction(const Tensor& input, const Tensor& hidden, const Tensor& cell, const Parameters& parameters,
                    bool reversed) {
  const auto turned = [reversed](const Tensor& x) { return reversed ? x.flip(0) : x; };
  const Tensor gates = turned(at::linear(input, parameters.input_weight, parameters.input_bias));
  const variable_list result =
      LayerFunction::apply(gates, hidden, cell, parameters.hidden_weight, parameters.hidden_bias);
  return {turned(result[0]), result[1], result[2]};
}

// Returns whether the kernel fits. LibTorch's composition does the rest: projections, empty inputs and types other than
// float32.
bool fits(const Tensor& input, TensorList start, TensorList parameters, bool has_biases, int64_t layers, bool both) {
  const size_t directions = static_cast<size_t>(layers) * (both ? 2 : 1);
  if (input.dim() != 3 || input.numel() == 0 || start.size() != 2 || layers < 1) return false;
  if (parameters.size() != directions * (has_biases ? 4 : 2)) return false;
  const auto is_float = [](const Tensor& tensor) { return tensor.scalar_type() == at::kFloat; };
  if (!is_float(input) || !is_float(start[0]) || !is_float(start[1])) return false;
  for (const Tensor& each : parameters)
    if (!is_float(each)) return false;
  for (const Tensor& each : start)
    if (each.dim() != 3 || each.size(0) != static_cast<int64_t>(directions) || each.numel() == 0) return false;
  return true;
}

Three lstm(const Tensor& input, TensorList start, TensorList parameters, bool has_biases, int64_t layers,
           double dropout, bool train, bool both, bool batch_first) {
  if (!fits(input, start, parameters, has_biases, layers, both)) {
    const WithoutCudnn without;
    return at::native::lstm(input, start, parameters, has_biases, layers, dropout, train, both, batch_first);
  }
  const std::vector<Tensor> hiddens = start[0].unbind(0), cells = start[1].unbind(0);
  std::vector<Tensor> last_hiddens, last_cells;
  Tensor x = batch_first ? input.transpose(0, 1) : input;
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<Tensor> outputs;
    for (const bool reversed : {false, true}) {
      if (reversed && !both) continue;
      const size_t direction = last_hiddens.size();
      auto [output, hidden, cell] = run_direction(x, hiddens[direction], cells[direction],
                                                  parameters_of(parameters, direction, has_biases), reversed);
      outputs.push_back(output);
      last_hiddens.push_back(hidden);
      last_cells.push_back(cell);
    }
    x = both ? at::cat(outputs, 2) : outputs[0];
    if (train && dropout != 0 && layer + 1 < layers) x = at::dropout(x, dropout, true);
  }
  if (batch_first) x = x.transpose(0, 1);
  return {x, at::stack(last_hiddens, 0), at::stack(last_cells, 0)};
}

}  // namespace

void register_recurrent(OperatorRegistry& registry) { registry.replace_above_autograd("lstm.input", operators::lstm); }

}  // namespace estrain::operators

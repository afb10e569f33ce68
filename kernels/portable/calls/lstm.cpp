#include "kernels/portable/lstm.h"

#include "kernels/portable/calls/device_kernels.h"
#include "kernels/portable/elementwise.h"
#include "kernels/portable/loops/lstm.h"

namespace estrain::kernels::portable {
namespace {

// Arrays of one step.
struct Sizes {
  int64_t samples, width;
  explicit Sizes(const LstmShape& shape) : samples(shape.samples), width(shape.width) {}
  int64_t cells() const { return samples * width; }
  int64_t gates() const { return 4 * samples * width; }
};

GemmOperand rows(const float* data, int64_t columns) { return {data, 0, columns, 1}; }
GemmOperand turned(const float* data, int64_t columns) { return {data, 0, 1, columns}; }

// The hidden values' part of a step's gates.
void multiply_hidden(const Sizes& sizes, const LstmForward& f, const float* hidden, float* gates,
                     const Execution& execution) {
  Gemm gemm;
  gemm.m = sizes.samples;
  gemm.n = 4 * sizes.width;
  gemm.k = sizes.width;
  gemm.a = rows(hidden, sizes.width);
  gemm.b = rows(f.turned_weight, 4 * sizes.width);
  gemm.c = gates;
  gemm.c_row_stride = 4 * sizes.width;
  if (f.bias != nullptr) gemm.d = rows(f.bias, 0);
  portable::gemm(gemm, execution);
}

// The gradient of the step's hidden values before.
void multiply_gates(const Sizes& sizes, const LstmBackward& b, const float* gate_gradient, const Execution& execution) {
  Gemm gemm;
  gemm.m = sizes.samples;
  gemm.n = sizes.width;
  gemm.k = 4 * sizes.width;
  gemm.a = rows(gate_gradient, 4 * sizes.width);
  gemm.b = rows(b.weight, sizes.width);
  gemm.c = b.carried_hidden;
  gemm.c_row_stride = sizes.width;
  portable::gemm(gemm, execution);
}

void add_weight_gradient(const Sizes& sizes, const LstmBackward& b, const float* gate_gradient, const float* hidden,
                         bool is_first, const Execution& execution) {
  Gemm gemm;
  gemm.m = 4 * sizes.width;
  gemm.n = sizes.width;
  gemm.k = sizes.samples;
  gemm.a = turned(gate_gradient, 4 * sizes.width);
  gemm.b = rows(hidden, sizes.width);
  gemm.c = b.weight_gradient;
  gemm.c_row_stride = sizes.width;
  if (!is_first) gemm.d = rows(b.weight_gradient, sizes.width);
  portable::gemm(gemm, execution);
}

void add_bias_gradient(const Sizes& sizes, const LstmBackward& b, const float* gate_gradient, bool is_first,
                       const Execution& execution) {
  const int64_t n = 4 * sizes.width;
  portable::sum(is_first ? b.bias_gradient : b.step_bias, gate_gradient, {1, sizes.samples, n}, execution);
  if (!is_first) portable::add_scaled(b.bias_gradient, b.bias_gradient, b.step_bias, 1, n, execution);
}

}  // namespace

void lstm(const LstmShape& shape, const LstmForward& f, const Execution& execution) {
  const Sizes sizes(shape);
  const float *hidden = f.start.hidden, *cell = f.start.cell;
  for (int64_t t = 0; t < shape.steps; ++t) {
    LstmCells cells = {};
    cells.samples = sizes.samples;
    cells.width = sizes.width;
    cells.gates = f.gates + t * sizes.gates();
    cells.input_gates = f.input_gates + t * sizes.gates();
    cells.cell_before = cell;
    cells.cell = f.cells + t * sizes.cells();
    cells.squashed = f.squashed + t * sizes.cells();
    cells.hidden = f.hidden + t * sizes.cells();
    multiply_hidden(sizes, f, hidden, cells.gates, execution);
    lstm_loops_of(execution).forward(cells, execution);
    hidden = cells.hidden;
    cell = cells.cell;
  }
}

void lstm_backward(const LstmShape& shape, const LstmBackward& b, const Execution& execution) {
  const Sizes sizes(shape);
  for (int64_t t = shape.steps - 1; t >= 0; --t) {
    const bool is_last = t == shape.steps - 1;
    const float* const hidden_before = t > 0 ? b.hidden + (t - 1) * sizes.cells() : b.start.hidden;
    LstmCellGradients cells = {};
    cells.samples = sizes.samples;
    cells.width = sizes.width;
    cells.gates = b.gates + t * sizes.gates();
    cells.cell_before = t > 0 ? b.cells + (t - 1) * sizes.cells() : b.start.cell;
    cells.squashed = b.squashed + t * sizes.cells();
    if (b.output_gradient != nullptr) cells.output_gradient = b.output_gradient + t * sizes.cells();
    if (!is_last || b.has_hidden) cells.carried_hidden = b.carried_hidden;
    cells.has_cell = !is_last || b.has_cell;
    cells.carried_cell = b.carried_cell;
    cells.gate_gradient = b.gate_gradient + t * sizes.gates();
    lstm_loops_of(execution).backward(cells, execution);
    multiply_gates(sizes, b, cells.gate_gradient, execution);
    if (b.weight_gradient != nullptr)
      add_weight_gradient(sizes, b, cells.gate_gradient, hidden_before, is_last, execution);
    if (b.bias_gradient != nullptr) add_bias_gradient(sizes, b, cells.gate_gradient, is_last, execution);
  }
}

}  // namespace estrain::kernels::portable

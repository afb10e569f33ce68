// A step of an LSTM (kernels/portable/lstm.h): a thread for each cell.

#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/families.h"
#include "kernels/portable/arithmetic/lstm_cell.h"

namespace estrain::kernels::cuda {
namespace {

__device__ LstmGates read_gates(const float* at, int64_t width) {
  return {at[0], at[width], at[2 * width], at[3 * width]};
}
__device__ void write_gates(float* at, int64_t width, const LstmGates& gates) {
  at[0] = gates.input;
  at[width] = gates.forget;
  at[2 * width] = gates.candidate;
  at[3 * width] = gates.output;
}

// Returns the place of cell `i` among the gates of the cell's sample.
__device__ int64_t gates_at(int64_t i, int64_t width) { return i / width * 4 * width + i % width; }

__global__ void forward_cells(LstmCells a) {
  const int64_t i = thread_index();
  if (i >= a.samples * a.width) return;
  const int64_t at = gates_at(i, a.width);
  const LstmCell now =
      lstm_cell(read_gates(a.gates + at, a.width), read_gates(a.input_gates + at, a.width), a.cell_before[i]);
  write_gates(a.gates + at, a.width, now.gates);
  a.cell[i] = now.cell;
  a.squashed[i] = now.squashed;
  a.hidden[i] = now.hidden;
}

__global__ void backward_cells(LstmCellGradients a) {
  const int64_t i = thread_index();
  if (i >= a.samples * a.width) return;
  const int64_t at = gates_at(i, a.width);
  const LstmGates gates = read_gates(a.gates + at, a.width);
  float hidden = 0;
  if (a.output_gradient == nullptr) {
    hidden = a.carried_hidden[i];
  } else {
    hidden = a.output_gradient[i];
    if (a.carried_hidden != nullptr) hidden = hidden + a.carried_hidden[i];
  }
  float cell = lstm_cell_gradient(hidden, gates.output, a.squashed[i]);
  if (a.has_cell) cell = cell + a.carried_cell[i];
  write_gates(a.gate_gradient + at, a.width, lstm_gate_gradients(gates, a.squashed[i], a.cell_before[i], hidden, cell));
  a.carried_cell[i] = cell * gates.forget;
}

void forward(const LstmCells& a, const Execution& execution) {
  launch("lstm", queue_of(execution), grid_for(a.samples * a.width), forward_cells, a);
}
void backward(const LstmCellGradients& a, const Execution& execution) {
  launch("lstm_backward", queue_of(execution), grid_for(a.samples * a.width), backward_cells, a);
}

}  // namespace

extern const LstmLoops lstm_kernels = {.forward = forward, .backward = backward};

}  // namespace estrain::kernels::cuda

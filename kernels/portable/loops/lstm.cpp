#include "kernels/portable/loops/lstm.h"

#include "kernels/loops/walks.h"
#include "kernels/portable/arithmetic/lstm_cell.h"
#include "kernels/portable/loops/tasks.h"

namespace estrain::kernels::ESTRAIN_ISA {
namespace {

// Fewer elements than this are not worth a second thread.
constexpr int64_t least_elements = 4096;

template <typename Part>
inline __attribute__((always_inline)) LstmGates read_gates(const float* row, int64_t width_of_gate, size_t i,
                                                           Part part) {
  const float* at = row + i;
  return {part.read(at), part.read(at + width_of_gate), part.read(at + 2 * width_of_gate),
          part.read(at + 3 * width_of_gate)};
}

template <typename Part>
inline __attribute__((always_inline)) void write_gates(float* row, int64_t width_of_gate, size_t i, Part part,
                                                       const LstmGates& gates) {
  float* at = row + i;
  part.write(at, gates.input);
  part.write(at + width_of_gate, gates.forget);
  part.write(at + 2 * width_of_gate, gates.candidate);
  part.write(at + 3 * width_of_gate, gates.output);
}

// Calls body(sample, i, part) for the vectors of all samples' rows.
template <typename Body>
void for_cells(int64_t samples, int64_t cells, const Execution& execution, Body body) {
  const int64_t least = cells >= least_elements ? 1 : (least_elements + cells - 1) / (cells > 0 ? cells : 1);
  for_ranges(execution, samples, 1, least, [&](int64_t begin, int64_t end) {
    for (int64_t sample = begin; sample < end; ++sample)
      for_vectors(
          0, static_cast<size_t>(cells), [&](size_t i, auto part) __attribute__((always_inline)) {
            body(sample, i, part);
          });
  });
}

void forward(const LstmCells& a, const Execution& execution) {
  for_cells(
      a.samples, a.width, execution, [&](int64_t sample, size_t i, auto part) __attribute__((always_inline)) {
        float* const gates = a.gates + 4 * sample * a.width;
        const int64_t at = sample * a.width + static_cast<int64_t>(i);
        const LstmCell now = lstm_cell(read_gates(gates, a.width, i, part),
                                       read_gates(a.input_gates + 4 * sample * a.width, a.width, i, part),
                                       part.read(a.cell_before + at));
        write_gates(gates, a.width, i, part, now.gates);
        part.write(a.cell + at, now.cell);
        part.write(a.squashed + at, now.squashed);
        part.write(a.hidden + at, now.hidden);
      });
}

void backward(const LstmCellGradients& a, const Execution& execution) {
  for_cells(
      a.samples, a.width, execution, [&](int64_t sample, size_t i, auto part) __attribute__((always_inline)) {
        const int64_t at = sample * a.width + static_cast<int64_t>(i);
        const LstmGates gates = read_gates(a.gates + 4 * sample * a.width, a.width, i, part);
        const Floats squashed = part.read(a.squashed + at);
        Floats hidden = Floats{};
        if (a.output_gradient == nullptr) {
          hidden = part.read(a.carried_hidden + at);
        } else {
          hidden = part.read(a.output_gradient + at);
          if (a.carried_hidden != nullptr) hidden = hidden + part.read(a.carried_hidden + at);
        }
        Floats cell = lstm_cell_gradient(hidden, gates.output, squashed);
        if (a.has_cell) cell = cell + part.read(a.carried_cell + at);
        write_gates(a.gate_gradient + 4 * sample * a.width, a.width, i, part,
                    lstm_gate_gradients(gates, squashed, part.read(a.cell_before + at), hidden, cell));
        part.write(a.carried_cell + at, cell * gates.forget);
      });
}

}  // namespace

extern const LstmLoops lstm_loops = {.forward = forward, .backward = backward};

}  // namespace estrain::kernels::ESTRAIN_ISA

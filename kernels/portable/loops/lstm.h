#pragma once
#include <stdint.h>

#include "kernels/execution.h"
#include "kernels/per_isa.h"

namespace estrain::kernels {

// A step of portable/lstm.h, with the names of that file.
struct LstmCells {
  int64_t samples, width;
  float* gates;              // in: the previous step's part; out: the gates
  const float* input_gates;  // the input's part
  const float* cell_before;
  float *cell, *squashed, *hidden;
};
struct LstmCellGradients {
  int64_t samples, width;
  const float *gates, *cell_before, *squashed;
  const float *output_gradient, *carried_hidden;  // at most one of the two is null
  bool has_cell;                                  // carried_cell holds a gradient
  float* carried_cell;
  float* gate_gradient;
};

struct LstmLoops {
  void (*forward)(const LstmCells&, const Execution&);
  void (*backward)(const LstmCellGradients&, const Execution&);
};
ESTRAIN_PER_ISA(LstmLoops, lstm_loops);

}  // namespace estrain::kernels

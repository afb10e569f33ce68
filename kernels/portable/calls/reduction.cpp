#include "kernels/portable/reduction.h"

#include <cmath>
#include <limits>

#include "kernels/portable/calls/device_kernels.h"
#include "kernels/portable/loops/reduction.h"
#include "kernels/workspace.h"

namespace estrain::kernels::portable {
namespace {

enum Slot { partials_slot = 0, sums_slot, squares_slot, means_slot };

int64_t num_outputs(const Reduced& shape) { return shape.outer * shape.inner; }

void sum_terms(float* out, const float* x, const float* means, const Reduced& shape, bool squares,
               const Execution& execution) {
  if (num_outputs(shape) == 0) return;
  const int64_t blocks = num_reduction_blocks(shape.reduced, shape.inner);
  float* partials = blocks == 1 ? out : workspace(partials_slot, static_cast<size_t>(num_outputs(shape) * blocks));
  reduction_loops(execution.isa)
      .sum({out, x, means, shape.outer, shape.reduced, shape.inner, squares, partials}, execution);
}

}  // namespace

void sum(float* out, const float* x, const Reduced& shape, const Execution& execution) {
  if (execution.device != nullptr) return execution.device->kernels->sum(out, x, shape, execution);
  sum_terms(out, x, nullptr, shape, false, execution);
}

void mean(float* out, const float* x, const Reduced& shape, const Execution& execution) {
  if (execution.device != nullptr) return execution.device->kernels->mean(out, x, shape, execution);
  sum(out, x, shape, execution);
  const float count = static_cast<float>(shape.reduced);
  for (int64_t i = 0; i < num_outputs(shape); ++i) out[i] /= count;
}

void sum_of_squares(float* out, const float* x, const Reduced& shape, const Execution& execution) {
  if (execution.device != nullptr) return execution.device->kernels->sum_of_squares(out, x, shape, execution);
  sum_terms(out, x, nullptr, shape, true, execution);
}

void l2_norm(float* out, const float* x, const Reduced& shape, const Execution& execution) {
  if (execution.device != nullptr) return execution.device->kernels->l2_norm(out, x, shape, execution);
  sum_of_squares(out, x, shape, execution);
  for (int64_t i = 0; i < num_outputs(shape); ++i) out[i] = std::sqrt(out[i]);
}

void variance(float* out, float* means, const float* x, const Reduced& shape, const VarianceOptions& options,
              const Execution& execution) {
  if (execution.device != nullptr) return execution.device->kernels->variance(out, means, x, shape, options, execution);
  const size_t outputs = static_cast<size_t>(num_outputs(shape));
  if (means == nullptr) means = workspace(means_slot, outputs);
  float* sums = workspace(sums_slot, outputs);
  float* squares = workspace(squares_slot, outputs);
  mean(means, x, shape, execution);
  sum_terms(sums, x, means, shape, false, execution);
  sum_terms(squares, x, means, shape, true, execution);
  const float count = static_cast<float>(shape.reduced), divisor = count - options.correction;
  for (size_t i = 0; i < outputs; ++i) {
    const float square = squares[i] - sums[i] * sums[i] / count;
    out[i] = divisor > 0 ? (square < 0 ? 0 : square) / divisor : std::numeric_limits<float>::quiet_NaN();
    if (options.deviation) out[i] = std::sqrt(out[i]);
  }
}

float l2_norm(const float* x, int64_t n, const Execution& execution) {
  float norm = 0;
  l2_norm(&norm, x, {1, n, 1}, execution);
  return norm;
}

float clip_factor(float norm, float max_norm) {
  const float factor = max_norm * (1 / (norm + 1e-6f));
  return factor > 1 ? 1 : factor;
}

}  // namespace estrain::kernels::portable

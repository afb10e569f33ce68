#pragma once
// Tables of functions, defined by the .cu files of this folder and combined by kernels.cu.

#include "kernels/cuda/grid.h"
#include "kernels/portable/calls/device_kernels.h"

namespace estrain::kernels::cuda {

static inline const DeviceQueue& queue_of(const Execution& execution) { return *execution.device; }

#define ESTRAIN_DECLARED_TABLE(Type, family) extern const Type family##_kernels;
#define ESTRAIN_DECLARED_FUNCTION(name, ...) void name(__VA_ARGS__);
ESTRAIN_DEVICE_TABLES(ESTRAIN_DECLARED_TABLE)
ESTRAIN_DEVICE_FUNCTIONS(ESTRAIN_DECLARED_FUNCTION)
#undef ESTRAIN_DECLARED_TABLE
#undef ESTRAIN_DECLARED_FUNCTION

// out[i] = partials[i][0] + partials[i][1] + ..., in order; at least one block.
void add_in_order(float* out, const float* partials, int64_t outputs, int64_t blocks, const DeviceQueue& queue);

}  // namespace estrain::kernels::cuda

#pragma once
// Shared by the parts of a depthwise convolution.

#include "kernels/portable/loops/depthwise.h"
#include "kernels/portable/loops/planes.h"
#include "kernels/portable/loops/tasks.h"
#include "kernels/workspace.h"

namespace estrain::kernels::ESTRAIN_ISA {

// Workspace slots of a task's thread.
enum ScratchSlot { kPlaneSlot = 1, kResultSlot, kTapSlot, kInputSlot, kGradientSlot };

constexpr int64_t kTermBlock = 256;      // terms of a chain (kernels/portable/block.h)
constexpr int64_t kWorthATask = 100000;  // multiplications, the least of a task

static inline float* scratch(ScratchSlot slot, int64_t floats) { return workspace(slot, static_cast<size_t>(floats)); }

// The number of tasks for a pass that can be cut into `pieces`.
static inline int64_t num_tasks(const DepthwiseArguments& a, int64_t pieces, const Execution& execution) {
  const int64_t work = a.n * a.channels * a.multiplier * a.h.out * a.w.out * a.h.kernel * a.w.kernel;
  return larger(1, smaller(smaller(execution.threads, pieces), work / kWorthATask));
}

// Whether an axis has a window of 3 with one pixel of padding and stride 1 or 2, and each of its taps reads the image
// for some output: depthwise_3x3.h computes such axes.
static inline bool is_3_wide(const WindowAxis& axis) {
  return axis.kernel == 3 && axis.padding == 1 && axis.dilation == 1 && (axis.stride == 1 || axis.stride == 2) &&
         axis.in >= 3 && axis.out == (axis.in - 1) / axis.stride + 1;
}
static inline bool is_3x3(const DepthwiseArguments& a) {
  return is_3_wide(a.h) && is_3_wide(a.w) && a.h.stride == a.w.stride;
}

// depthwise_filter.cpp: the gradients of the filters.
void depthwise_backward_filter(const DepthwiseArguments& a, const Execution& execution);

}  // namespace estrain::kernels::ESTRAIN_ISA

#pragma once
// Folds one EST's gradient into the partial sums of its worker, by the plan of the reduction tree (core/comm).

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/device_queue.h"

namespace estrain::est {

// A partial sum of one parameter or a piece of it. It is absent if no EST below it reached the parameter. In a sum with
// a present one it counts as +0; two absent ones give an absent sum.
struct Partial {
  const float* values;
  bool present;
};

// left[0] + (left[1] + (… + (left[k-1] + gradient * factor))) over n elements, into `out` (which may be left[0].values,
// or `gradient` where k = 0). `gradient` may be null: absent. Every operation is rounded. Returns whether the result is
// present; if not, `out` is unchanged.
bool fold(std::span<const Partial> left, const float* gradient, float factor, float* out, size_t n);

// left + right, by the same rules.
bool add_partials(Partial left, Partial right, float* out, size_t n);

// fold() for arrays in a device's memory, through its queue, with the same bits. For parameters with an absent part; if
// all parts are present, kernels::DeviceUpdates folds many parameters at once.
bool fold_absent_on_device(std::span<const Partial> left, const float* gradient, float factor, float* out, size_t n,
                           const kernels::DeviceQueue& queue);

}  // namespace estrain::est

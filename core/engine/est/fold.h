#pragma once
// Folds one EST's gradient into the partial sums of its worker, by the plan of the reduction tree (core/state/comm).

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/state/comm/sums/partial_sum.h"
#include "kernels/device_queue.h"

namespace estrain::est {

using comm::add_partials;
using comm::Partial;

// Writes left[0] + (left[1] + (… + (left[k-1] + gradient * factor))) over n elements into `out` (which may be
// left[0].values, or `gradient` where k = 0). `gradient` may be null: absent. Every operation is rounded. Returns
// whether the result is present; if not, `out` is unchanged.
bool fold(std::span<const Partial> left, const float* gradient, float factor, float* out, size_t n);

// Does fold() with arrays in a device's memory, in the device's queue: the same bits. For sums with an absent term;
// kernels::DeviceUpdates folds many parameters at once where all terms are present.
bool fold_absent_on_device(std::span<const Partial> left, const float* gradient, float factor, float* out, size_t n,
                           const kernels::DeviceQueue& queue);

}  // namespace estrain::est

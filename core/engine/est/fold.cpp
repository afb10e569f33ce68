#include "core/engine/est/fold.h"

#include <algorithm>
#include <array>

#include "core/state/comm/sums/reduction_tree.h"
#include "kernels/device_updates.h"
#include "kernels/sum.h"

namespace estrain::est {

bool fold(std::span<const Partial> left, const float* gradient, float factor, float* out, size_t n) {
  if (left.empty()) {
    if (gradient != nullptr) kernels::scale(out, gradient, factor, n);
    return gradient != nullptr;
  }
  const bool all_present = gradient != nullptr && std::ranges::all_of(left, &Partial::present);
  if (all_present && left.size() <= comm::kDeepestStack) {
    std::array<const float*, comm::kDeepestStack> operands;
    std::ranges::transform(left, operands.begin(), &Partial::values);
    kernels::fold_scaled(out, operands.data(), left.size(), gradient, factor, n);
    return true;
  }
  // Folds where an EST did not reach the parameter: adds one term at a time, from the innermost. `out` may be left[0]'s
  // memory; the loop reads left[0] last, so scratch memory holds the sum until then.
  std::array<float, 256> scratch;
  bool present = false;
  for (size_t begin = 0; begin == 0 || begin < n; begin += scratch.size()) {
    const size_t size = std::min(scratch.size(), n - begin);
    present = gradient != nullptr;
    if (present) kernels::scale(scratch.data(), gradient + begin, factor, size);
    for (size_t i = left.size(); i-- > 0;) {
      present =
          add_partials({left[i].values + begin, left[i].present}, {scratch.data(), present}, scratch.data(), size);
    }
    if (present) std::copy_n(scratch.data(), size, out + begin);
  }
  return present;
}

bool fold_absent_on_device(std::span<const Partial> left, const float* gradient, float factor, float* out, size_t n,
                           const kernels::DeviceQueue& queue) {
  const kernels::DeviceUpdates& updates = *queue.updates;
  // Adds one partial sum at a time in scratch memory: the last term, left[0], may be the memory of `out`.
  void* const scratch = queue.allocate(queue, n * sizeof(float));
  auto* const sum = static_cast<float*>(scratch);
  bool present = gradient != nullptr;
  const kernels::FoldPiece piece = {gradient, 0, n};
  if (present) updates.fold_scaled(sum, {}, factor, {&piece, 1}, queue);
  for (size_t i = left.size(); i-- > 0;) {
    float* const to = i == 0 ? out : sum;
    if (left[i].present && present) {
      updates.add(to, left[i].values, sum, n, queue);
    } else if (left[i].present || present) {
      updates.add_zero(to, left[i].present ? left[i].values : sum, n, queue);
    }
    present |= left[i].present;
  }
  queue.release(queue, scratch);
  return present;
}

}  // namespace estrain::est

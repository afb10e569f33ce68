#include "core/state/comm/sums/partial_sum.h"

#include "kernels/sum.h"

namespace estrain::comm {

bool add_partials(Partial left, Partial right, float* out, size_t n) {
  if (left.present && right.present) {
    kernels::add(out, left.values, right.values, n);
  } else if (left.present || right.present) {
    kernels::add_zero(out, left.present ? left.values : right.values, n);
  }
  return left.present || right.present;
}

}  // namespace estrain::comm

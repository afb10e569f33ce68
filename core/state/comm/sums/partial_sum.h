#pragma once
// A partial sum of one parameter's gradients, or of a piece. Absent: no EST below the sum reached the parameter. An
// absent sum counts as +0 in a sum with a present one, and two absent sums stay absent.

#include <cstddef>

namespace estrain::comm {

struct Partial {
  const float* values;
  bool present;
};

// Adds left + right over n elements, into `out`, which may be the memory of either. Returns whether the result is
// present; if not, `out` is untouched.
bool add_partials(Partial left, Partial right, float* out, size_t n);

}  // namespace estrain::comm

#pragma once
// A partial sum of one parameter's gradients, or of a piece of it. Absent: no EST below it reached the parameter; it
// counts as +0 in a sum with a present one, and two absent ones stay absent.

#include <cstddef>

namespace estrain::comm {

struct Partial {
  const float* values;
  bool present;
};

// left + right over n elements, into `out`, which may be either's memory. Returns whether the result is present; if
// not, `out` is untouched.
bool add_partials(Partial left, Partial right, float* out, size_t n);

}  // namespace estrain::comm

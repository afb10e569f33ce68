#include "core/data/sampling/portable_numbers.h"

#include <cmath>

namespace estrain::data {

// Halves x until a short series is exact enough, then squares.
double exponential(double x) {
  int halvings = 0;
  for (; std::abs(x) > 0.0625; ++halvings) x *= 0.5;
  double sum = 1;
  for (int n = 10; n >= 1; --n) sum = 1 + sum * x / n;
  for (; halvings > 0; --halvings) sum *= sum;
  return sum;
}

// Newton's method on exponential(), for the mantissa of x in [1/2, 1).
double logarithm(double x) {
  constexpr double log_2 = 0.693147180559945309417;
  int exponent = 0;
  const double part = std::frexp(x, &exponent);
  double y = part - 1;
  for (int step = 0; step < 8; ++step) y += part * exponential(-y) - 1;
  return y + exponent * log_2;
}

}  // namespace estrain::data

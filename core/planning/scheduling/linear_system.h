#pragma once
// Small systems of linear equations.

#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

namespace estrain::scheduling {

// Solves a x = b in place, by elimination with pivots. Returns false if the system has no solution.
template <size_t N>
bool solve(std::array<std::array<double, N>, N>& a, std::array<double, N>& b) {
  for (size_t column = 0; column < N; ++column) {
    size_t pivot = column;
    for (size_t row = column + 1; row < N; ++row) {
      if (std::abs(a[row][column]) > std::abs(a[pivot][column])) pivot = row;
    }
    if (std::abs(a[pivot][column]) < 1e-300) return false;
    std::swap(a[pivot], a[column]);
    std::swap(b[pivot], b[column]);
    for (size_t row = column + 1; row < N; ++row) {
      const double factor = a[row][column] / a[column][column];
      for (size_t k = column; k < N; ++k) a[row][k] -= factor * a[column][k];
      b[row] -= factor * b[column];
    }
  }
  for (size_t row = N; row-- > 0;) {
    for (size_t k = row + 1; k < N; ++k) b[row] -= a[row][k] * b[k];
    b[row] /= a[row][row];
  }
  return true;
}

}  // namespace estrain::scheduling

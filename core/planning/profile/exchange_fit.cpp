#include "core/planning/profile/exchange_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

namespace estrain::profile {
namespace {

constexpr size_t kTerms = 4;
constexpr double kRidge = 1e-9;  // relative to the diagonal: decides only in directions left open by the samples

using Vector = std::array<double, kTerms>;
using Matrix = std::array<Vector, kTerms>;

plan::Exchange exchange_of(const Vector& terms) { return {terms[0], terms[1], terms[2], terms[3]}; }

// Returns the weight of each coefficient in a sample by evaluating the model, which is linear in the coefficients.
Vector row_of(const ExchangeSample& sample) {
  Vector row{};
  for (size_t i = 0; i < kTerms; ++i) {
    Vector unit{};
    unit[i] = 1;
    row[i] = exchange_of(unit).seconds(sample.workers, sample.partial_sums);
  }
  return row;
}

struct NormalEquations {
  Matrix squares{};
  Vector products{};
};

NormalEquations normal_equations(const std::vector<ExchangeSample>& samples) {
  NormalEquations equations;
  double trace = 0;
  for (const ExchangeSample& sample : samples) {
    const Vector row = row_of(sample);
    const double weight =
        std::clamp(static_cast<double>(sample.estimate.samples), 0.5, static_cast<double>(Estimate::kMemory));
    for (size_t i = 0; i < kTerms; ++i) {
      equations.products[i] += weight * row[i] * sample.estimate.seconds;
      for (size_t j = 0; j < kTerms; ++j) equations.squares[i][j] += weight * row[i] * row[j];
      trace += weight * row[i] * row[i];
    }
  }
  for (size_t i = 0; i < kTerms; ++i) equations.squares[i][i] += kRidge * trace;
  return equations;
}

// Solves for the `chosen` terms by Cholesky's method; returns nothing if a term is negative.
std::optional<Vector> solve(const NormalEquations& equations, unsigned chosen) {
  Matrix lower{};
  Vector halfway{}, terms{};
  const auto uses = [&](size_t i) { return (chosen >> i & 1u) != 0; };
  for (size_t i = 0; i < kTerms; ++i) {
    if (!uses(i)) continue;
    for (size_t j = 0; j <= i; ++j) {
      if (!uses(j)) continue;
      double rest = equations.squares[i][j];
      for (size_t k = 0; k < j; ++k) rest -= lower[i][k] * lower[j][k];
      if (i == j && rest <= 0) return std::nullopt;
      lower[i][j] = i == j ? std::sqrt(rest) : rest / lower[j][j];
    }
    double rest = equations.products[i];
    for (size_t k = 0; k < i; ++k) rest -= lower[i][k] * halfway[k];
    halfway[i] = rest / lower[i][i];
  }
  for (size_t i = kTerms; i-- > 0;) {
    if (!uses(i)) continue;
    double rest = halfway[i];
    for (size_t k = i + 1; k < kTerms; ++k) rest -= lower[k][i] * terms[k];
    terms[i] = rest / lower[i][i];
    if (terms[i] < 0) return std::nullopt;
  }
  return terms;
}

// The squared residual, up to a constant.
double cost(const NormalEquations& equations, const Vector& terms) {
  double sum = 0;
  for (size_t i = 0; i < kTerms; ++i) {
    double row = -2 * equations.products[i];
    for (size_t j = 0; j < kTerms; ++j) row += equations.squares[i][j] * terms[j];
    sum += row * terms[i];
  }
  return sum;
}

}  // namespace

plan::Exchange fit_exchange(const std::vector<ExchangeSample>& samples) {
  if (samples.empty()) return {};
  const NormalEquations equations = normal_equations(samples);
  Vector best{};
  double least = 0;  // the cost without any term
  for (unsigned chosen = 1; chosen < 1u << kTerms; ++chosen) {
    const std::optional<Vector> terms = solve(equations, chosen);
    if (!terms || cost(equations, *terms) >= least) continue;
    least = cost(equations, *terms);
    best = *terms;
  }
  return exchange_of(best);
}

}  // namespace estrain::profile

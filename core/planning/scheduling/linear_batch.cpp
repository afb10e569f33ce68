#include "core/planning/scheduling/linear_batch.h"

#include <algorithm>
#include <cmath>

namespace estrain::scheduling {

int64_t linear_batch(const BatchTerms& terms, int64_t devices, int64_t requested, int64_t epochs) {
  constexpr int64_t kDoublings = 40;  // beyond any batch
  const auto own = static_cast<double>(terms.own);
  const double per_device = own / static_cast<double>(std::max<int64_t>(1, requested));
  const double limit = std::ldexp(own, static_cast<int>(std::clamp<int64_t>(epochs, 0, kDoublings)));
  const double wanted = std::floor(std::min(per_device * static_cast<double>(devices), limit));
  const auto within = std::clamp(wanted, static_cast<double>(terms.least), static_cast<double>(terms.most));
  return static_cast<int64_t>(within);
}

double lr_factor(const BatchTerms& terms, double of_sgd) { return terms.square_root ? std::sqrt(of_sgd) : of_sgd; }

double linear_lr_factor(const BatchTerms& terms, int64_t batch) {
  return lr_factor(terms, static_cast<double>(batch) / static_cast<double>(terms.own));
}

}  // namespace estrain::scheduling

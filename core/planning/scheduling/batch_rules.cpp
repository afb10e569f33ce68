#include "core/planning/scheduling/batch_rules.h"

#include <algorithm>
#include <cmath>

namespace estrain::scheduling {
namespace {

constexpr double kWorthAChange = 1.1;
constexpr double kWorthATrial = 0.8;

double goodput(const GoodputTerms& terms, const BatchTimes& times, int64_t batch) {
  return static_cast<double>(batch) / times.seconds(batch) * efficiency(terms, batch);
}

}  // namespace

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

double efficiency(const GoodputTerms& terms, int64_t batch) {
  const auto ests = static_cast<double>(terms.ests);
  const double own = ests * static_cast<double>(terms.terms.own), all = ests * static_cast<double>(batch);
  return (terms.noise_scale + own) / (terms.noise_scale + all);
}

double goodput_lr_factor(const GoodputTerms& terms, int64_t batch) {
  return lr_factor(terms.terms,
                   efficiency(terms, batch) * static_cast<double>(batch) / static_cast<double>(terms.terms.own));
}

int64_t goodput_batch(const GoodputTerms& terms, const BatchTimes& times) {
  const auto known = times.measured().find(terms.in_force);
  if (known == times.measured().end() || known->second.times < kKnown) return terms.in_force;
  const int64_t least = std::max(terms.terms.least, terms.terms.own);
  const int64_t most = std::min(terms.terms.most, 2 * times.measured().rbegin()->first);
  if (most < least) return terms.in_force;
  if (times.measured().size() == 1) {
    const int64_t twice = std::clamp(2 * terms.in_force, least, most);
    return efficiency(terms, twice) / efficiency(terms, terms.in_force) >= kWorthATrial ? twice : terms.in_force;
  }
  int64_t best = terms.in_force;
  double most_goodput = kWorthAChange * goodput(terms, times, terms.in_force);
  const auto consider = [&](int64_t batch) {
    const double value = goodput(terms, times, batch);
    if (value > most_goodput) best = batch, most_goodput = value;
  };
  for (int64_t quarter = 0;; ++quarter) {  // four between a batch and its double
    const auto batch = std::llround(static_cast<double>(least) * std::exp2(static_cast<double>(quarter) / 4));
    if (batch >= most) break;
    consider(batch);
  }
  consider(most);
  return best;
}

}  // namespace estrain::scheduling

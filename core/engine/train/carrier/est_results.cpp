#include "core/engine/train/carrier/est_results.h"

#include <cmath>
#include <limits>

#include "core/state/comm/sums/tree_cut.h"

namespace estrain::train {
namespace {

// Sums by the tree of the gradients.
template <typename Value>
float tree_sum(int64_t lo, int64_t hi, const Value& value_of) {
  if (hi - lo == 1) return value_of(VirtualRank(lo));
  const int64_t middle = comm::middle_of(lo, hi);
  return tree_sum(lo, middle, value_of) + tree_sum(middle, hi, value_of);
}

}  // namespace

float one_nan(float value) { return std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value; }

void EstResults::put(VirtualRank rank, size_t result, float value) const {
  comm::put_float(record_.digests[manifest_.word_of_est(rank) + result], one_nan(value));
}

float EstResults::put_loss(VirtualRank rank, float value) const {
  float mean = value;
  if (weighs()) {
    put(rank, manifest_.term_names.size() + 1, value);
    mean = weight(rank) == 0 && value == 0 ? 0 : value / weight(rank);
  }
  return record_.est_losses[rank.value] = one_nan(mean);
}

float EstResults::word(VirtualRank rank, size_t result) const {
  return comm::float_of_word(record_.digests[manifest_.word_of_est(rank) + result]);
}

double EstResults::total_weight() const {
  double total = 0;
  for (int64_t rank = 0; rank < manifest_.ests; ++rank) total += static_cast<double>(weight(VirtualRank(rank)));
  return total;
}

float EstResults::factor_of_sum() const {
  const auto total = static_cast<float>(total_weight());
  return total == 0 ? 0 : 1.0f / total;
}

template <typename Value>
float EstResults::fold(Value&& value_of) const {
  const float factor = 1.0f / static_cast<float>(manifest_.ests);
  return one_nan(tree_sum(0, manifest_.ests, [&](VirtualRank rank) { return value_of(rank) * factor; }));
}

template <typename Value>
float EstResults::fold_sums(Value&& sum_of) const {
  if (total_weight() == 0) return std::numeric_limits<float>::quiet_NaN();
  return one_nan(tree_sum(0, manifest_.ests, sum_of) * factor_of_sum());
}

float EstResults::loss() const {
  if (weighs()) return fold_sums([this](VirtualRank rank) { return sum(rank); });
  return fold([this](VirtualRank rank) { return record_.est_losses[rank.value]; });
}

void EstResults::fold_terms() const {
  for (size_t term = 0; term < manifest_.term_names.size(); ++term) {
    const auto weighed = [&](VirtualRank rank) {
      return weight(rank) == 0 ? 0 : word(rank, term) * weight(rank);  // a mean over no targets may be NaN
    };
    const float folded = weighs() ? fold_sums(weighed) : fold([&](VirtualRank rank) { return word(rank, term); });
    comm::put_float(record_.digests[manifest_.digest_names.size() + term], folded);
  }
}

}  // namespace estrain::train

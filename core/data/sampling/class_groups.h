#pragma once
// ClassGroups draws mini-batches with m samples of each of some classes, for losses that compare samples of a class
// (the idea is pytorch-metric-learning's MPerClassSampler).
//
// A mini-batch of b samples is b / m groups of m samples of one class. The classes of a mini-batch are drawn without
// replacement from the classes that have samples. The samples of a group are drawn from the class's samples without
// replacement, or, if the class has fewer than m, with replacement. Mini-batches are drawn independently of each other.
//
//   word(k)   = philox(counter = {place, k / 4, epoch, stream 4}, key = seed)[k mod 4]
//               place: of the mini-batch's first sample among all samples of the epoch, start * N + rank
//   class     of group g: step g of a shuffle of the C classes in the order of their numbers, by word(g (m + 1))
//   sample i  of group g: step i of a shuffle of the class's samples in the order of the data (fewer than m samples:
//   the
//               sample below(word, count)), by word(g (m + 1) + 1 + i)
//   step i    of a shuffle of n places by a word exchanges places i and i + below(word, n - i), and gives place i
//
// A group depends neither on the size of its mini-batch nor on other groups.

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/ids.h"
#include "core/data/sampling/philox.h"

namespace estrain::data {

// Immutable, hence thread-safe.
class ClassGroups {
 public:
  // `labels`: the class of each sample; `each`: m, at least 1.
  ClassGroups(const std::vector<int64_t>& labels, int64_t each, uint64_t seed);

  int64_t classes() const { return static_cast<int64_t>(samples_.size()); }  // with samples
  int64_t each() const { return each_; }

  // The samples of a mini-batch that begins at `place`, without the `first`, as many as fit into `out`.
  void indices(Epoch epoch, int64_t place, int64_t first, std::span<int64_t> out) const;

 private:
  class Words;

  void group(const Words& words, int64_t number, int64_t of_class, std::span<int64_t> out) const;

  std::vector<std::vector<int64_t>> samples_;  // of each class, by increasing class
  int64_t each_;
  uint64_t seed_;
};

}  // namespace estrain::data

#pragma once
// The results of a step's mini-batches beside their losses: terms of the loss (train.terms), and with train.weight =
// "tokens" each EST's sum of losses and weight. They lie in the words of the step's record behind the digests
// (checkpoint::Manifest), so that an aborted step leaves none, and the scribe reads the folded terms.
//
// A fold has the order of the gradients' tree, whatever the placement:
//   mean over ESTs    each value times 1/N, summed by the tree
//   by weight         each loss's sum, or each term times the EST's weight, summed by the tree; times 1/(total weight).
//                     The total is a sum of float64 in the order of the ESTs, rounded to float32
// All arithmetic is IEEE float32 otherwise.

#include <cstddef>

#include "core/base/ids.h"
#include "core/state/checkpoint/state/manifest.h"
#include "core/state/comm/records/step_record.h"

namespace estrain::train {

class EstResults {
 public:
  // `record`: of the step under way. `manifest` must outlive the object.
  EstResults(const checkpoint::Manifest& manifest, const comm::RecordView& record)
      : manifest_(manifest), record_(record) {}

  bool weighs() const { return manifest_.weighs; }

  // `result`: a term's number; behind the terms, the weight.
  void put(VirtualRank rank, size_t result, float value) const;
  // The loss of the EST's mini-batch. By weight: `value` is the sum of its losses, and its weight has been put.
  // Returns the loss on record: the mean over the mini-batch, 0 for an EST of weight 0.
  float put_loss(VirtualRank rank, float value) const;

  // 1/(total weight of the step), which the sum of the ESTs' gradients is multiplied by; 0 if the total is 0. For a
  // job that weighs, when all ESTs have put their weights.
  float factor_of_sum() const;
  // The step's loss; NaN if the total weight is 0.
  float loss() const;
  // Writes the terms over all ESTs into the record.
  void fold_terms() const;

 private:
  float word(VirtualRank rank, size_t result) const;
  float weight(VirtualRank rank) const { return word(rank, manifest_.term_names.size()); }
  float sum(VirtualRank rank) const { return word(rank, manifest_.term_names.size() + 1); }
  double total_weight() const;
  template <typename Value>
  float fold(Value&& value_of) const;  // the mean over ESTs
  template <typename Value>
  float fold_sums(Value&& sum_of) const;  // by weight; NaN if the total weight is 0

  const checkpoint::Manifest& manifest_;
  const comm::RecordView record_;
};

// Returns the value, with every NaN replaced by the same NaN. The instruction set decides which NaN an operation gives;
// records and checkpoints must not depend on the set.
float one_nan(float value);

}  // namespace estrain::train

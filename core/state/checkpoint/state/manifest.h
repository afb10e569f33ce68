#pragma once
// The description of a job's shared memory, from its builder to launcher and scribe, as the memory's manifest text.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/json/fields.h"
#include "core/job/batches/batch_schedule.h"
#include "core/state/checkpoint/state/state_layout.h"

namespace estrain::checkpoint {

struct Manifest {
  StateLayout layout;
  std::vector<std::string> digest_names;  // of a step record: parameters, buffers, "est/<rank>/generator"
  std::vector<std::string> metric_names;  // of an evaluation's record, beside loss and accuracy
  std::vector<std::string> term_names;    // of a step's record: terms of the loss
  bool weighs = false;                    // a step's record has a sum and a weight of each EST
  batches::BatchSchedule batches;         // of each EST
  int64_t ests = 0;                       // N
  int64_t total_steps = 0;                // at the job's end
  int64_t parameter_count = 0;            // scalars
  std::string processor;                  // "AuthenticAMD, <model>, AVX512": D1's bits hold for this processor
  std::string data;                       // CheckpointMeta::data for the builder's files

  std::string to_json() const;
  // Throws Fault::corrupt.
  static Manifest from_json(std::string_view text);

  ESTRAIN_FIELDS(layout, digest_names, metric_names, term_names, weighs, batches, ests, total_steps, parameter_count,
                 processor, data)

  // The words of a record: digests; then, of an evaluation, the metrics; of a step, the terms over all ESTs, and for
  // each EST the terms and, if the job weighs, sum and weight (core/engine/train/carrier/est_results.h).
  size_t words_of_est() const { return term_names.size() + (weighs ? 2 : 0); }
  size_t word_of_est(VirtualRank rank) const {
    return digest_names.size() + term_names.size() + static_cast<size_t>(rank.value) * words_of_est();
  }
  size_t words_of_record() const {
    return std::max(digest_names.size() + metric_names.size(), word_of_est(VirtualRank(ests)));
  }

  Epoch epoch_at(Step step) const { return batches.cursor_at(step).epoch; }
  // The samples of all ESTs in a step at about `step`, on average over an epoch.
  double samples_per_step(Step step) const { return batches.mean_batch(step) * static_cast<double>(ests); }
};

}  // namespace estrain::checkpoint

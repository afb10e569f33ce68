#pragma once
// The description of a job's shared memory, from its builder to launcher and scribe, as the memory's manifest text.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/checkpoint/state/state_layout.h"

namespace estrain::checkpoint {

struct Manifest {
  StateLayout layout;
  std::vector<std::string> digest_names;  // of a step record: parameters, buffers, "est/<rank>/generator"
  std::vector<std::string> metric_names;  // of an evaluation's record, beside loss and accuracy
  int64_t batches_per_epoch = 0;          // steps
  int64_t samples_per_rank = 0;           // consumed by each EST in one epoch
  int64_t samples_per_epoch = 0;          // of all ESTs
  int64_t batch = 0;                      // per EST and step
  int64_t total_steps = 0;                // at the job's end
  int64_t parameter_count = 0;            // scalars
  std::string processor;                  // "AuthenticAMD, <model>, AVX512": the processor for which D1's bits hold
  std::string data;                       // CheckpointMeta::data for the builder's files

  std::string to_json() const;
  // Throws Fault::corrupt.
  static Manifest from_json(std::string_view text);

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("layout", self.layout);
    visit("digest_names", self.digest_names);
    visit("metric_names", self.metric_names);
    visit("batches_per_epoch", self.batches_per_epoch);
    visit("samples_per_rank", self.samples_per_rank);
    visit("samples_per_epoch", self.samples_per_epoch);
    visit("batch", self.batch);
    visit("total_steps", self.total_steps);
    visit("parameter_count", self.parameter_count);
    visit("processor", self.processor);
    visit("data", self.data);
  }

  // Where the job stands in its data at `step`.
  Epoch epoch_at(Step step) const { return Epoch(step.value / batches_per_epoch); }
  int64_t samples_at(Step step) const;  // consumed by each EST in that epoch
};

}  // namespace estrain::checkpoint

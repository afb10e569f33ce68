#pragma once
// What the builder of a job's shared memory tells launcher and scribe about it, as the memory's manifest text.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/checkpoint/state_layout.h"

namespace estrain::checkpoint {

struct Manifest {
  StateLayout layout;
  std::vector<std::string> digest_names;  // of a step record: parameters, buffers, "est/<rank>/generator"
  int64_t batches_per_epoch = 0;          // steps
  int64_t samples_per_rank = 0;           // that each EST consumes in one epoch
  int64_t samples_per_epoch = 0;          // of all ESTs
  int64_t batch = 0;                      // per EST and step
  int64_t total_steps = 0;                // at which the job is done
  int64_t parameter_count = 0;            // scalars
  std::string processor;                  // "AuthenticAMD, <model>, AVX512": what D1's bits hold for
  std::string data;                       // CheckpointMeta::data, of the files that the builder trains on

  std::string to_json() const;
  static Manifest from_json(std::string_view text);

  // Where the job stands in its data at `step`.
  Epoch epoch_at(Step step) const { return Epoch(step.value / batches_per_epoch); }
  int64_t samples_at(Step step) const;  // consumed by each EST in that epoch
};

}  // namespace estrain::checkpoint

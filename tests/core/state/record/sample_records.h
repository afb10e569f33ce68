#pragma once
// Step records with distinct numbers for every step.

#include <vector>

#include "core/state/record/logs/step_record.h"

namespace estrain::record {

inline StepRecord sample_record(int64_t step, size_t num_digests = 3) {
  StepRecord record;
  record.step = Step(step);
  record.epoch = Epoch(step / 10);
  record.lr = 0.1 / static_cast<double>(step);
  record.loss = 1.f / static_cast<float>(step);
  record.est_losses = {record.loss * 3, -record.loss};
  for (size_t i = 0; i < num_digests; ++i)
    record.digests.push_back(static_cast<uint64_t>(step) * 0x9E3779B97F4A7C15 + i);
  record.samples_per_second = 1234.5;
  return record;
}

inline std::vector<StepRecord> sample_records(int64_t first, int64_t last, size_t num_digests = 3) {
  std::vector<StepRecord> records;
  for (int64_t step = first; step <= last; ++step) records.push_back(sample_record(step, num_digests));
  return records;
}

}  // namespace estrain::record

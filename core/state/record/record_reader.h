#pragma once
// Records of the ring in shared memory, as records of a run's logs and as messages.

#include <vector>

#include "core/state/checkpoint/state/manifest.h"
#include "core/state/comm/memory/record_ring.h"
#include "core/state/record/logs/step_record.h"
#include "core/state/record/scribe_messages.h"

namespace estrain::record {

class RecordReader {
 public:
  // `manifest` must outlive the reader.
  RecordReader(const checkpoint::Manifest& manifest, int64_t ests) : manifest_(manifest), ests_(ests) {}

  // `before_ns`: the time of the step before, which gives the step's speed; 0: not known.
  StepRecord read_step(const comm::RecordView& view, int64_t before_ns) const;
  EvaluationRecord read_evaluation(const comm::RecordView& view) const;
  // Returns the message about a step without an update: which number was not finite.
  Skipped why_left_out(const comm::RecordHead& head) const;

 private:
  const checkpoint::Manifest& manifest_;
  const int64_t ests_;
};

// Returns the metrics that a message can hold: numbers.
std::vector<MetricValue> values_of(const EvaluationRecord& evaluation);

}  // namespace estrain::record

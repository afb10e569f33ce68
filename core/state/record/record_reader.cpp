#include "core/state/record/record_reader.h"

#include <bit>
#include <cmath>

#include "core/base/clock.h"

namespace estrain::record {

Skipped RecordReader::why_left_out(const comm::RecordHead& head) const {
  const comm::Nonfinite& found = head.left_out;
  Skipped skipped{head.step, in_words(found, manifest_.digest_names), std::nullopt, std::nullopt};
  if (found.rank >= 0) skipped.rank = found.rank;
  if (found.tensor >= 0) skipped.tensor = manifest_.digest_names.at(static_cast<size_t>(found.tensor));
  return skipped;
}

std::vector<MetricValue> values_of(const EvaluationRecord& evaluation) {
  std::vector<MetricValue> values;
  for (const auto& [name, value] : evaluation.metrics) {
    if (std::isfinite(value)) values.push_back({name, value});
  }
  return values;
}

EvaluationRecord RecordReader::read_evaluation(const comm::RecordView& view) const {
  EvaluationRecord evaluation{view.head->step, view.head->loss, view.head->accuracy, view.head->predictions};
  for (size_t i = 0; i < manifest_.metric_names.size(); ++i) {
    const uint64_t value = view.digests[manifest_.digest_names.size() + i].load();
    evaluation.metrics.emplace_back(manifest_.metric_names[i], std::bit_cast<double>(value));
  }
  return evaluation;
}

StepRecord RecordReader::read_step(const comm::RecordView& view, int64_t before_ns) const {
  StepRecord record;
  record.step = view.head->step;
  record.epoch = view.head->epoch;
  record.lr = view.head->lr;
  record.loss = static_cast<float>(view.head->loss);
  record.est_losses.assign(view.est_losses, view.est_losses + ests_);
  const size_t digests = manifest_.digest_names.size();
  for (size_t i = 0; i < digests; ++i) record.digests.push_back(view.digests[i].load());
  for (size_t i = 0; i < manifest_.term_names.size(); ++i)
    record.terms.emplace_back(manifest_.term_names[i], comm::float_of_word(view.digests[digests + i]));
  const double step_seconds = before_ns > 0 ? seconds(view.head->time_ns - before_ns) : 0;
  const Step before(record.step.value - 1);
  record.samples_per_second = step_seconds > 0 ? manifest_.samples_per_step(before) / step_seconds : 0;
  record.left_out = view.head->left_out.where != comm::Nonfinite::Where::nowhere;
  return record;
}

}  // namespace estrain::record

#include "core/train/evaluation/evaluation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/base/clock.h"
#include "core/comm/records/step_record.h"
#include "core/data/reading/evaluation.h"
#include "core/operators/random_stream.h"
#include "core/spec/defaults.h"
#include "core/train/job/batch_tensors.h"
#include "core/train/job/waiting.h"

namespace estrain::train {
namespace {

// Behind the losses: one after another.
float* column_of(const Job& job, comm::JobMemory& memory, size_t column) {
  return memory.evaluation().losses + static_cast<int64_t>(column + 1) * job.samples().evaluated();
}

double sum_of(const float* values, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(values[i]);
  return sum;
}

// For each class, the fraction of its samples that were right.
void add_classes(const Job& job, comm::JobMemory& memory, const float* targets, std::vector<double>& metrics) {
  const spec::TrainSection& train = job.spec().train;
  const size_t others =
      train.top_k.size() + train.metrics.size() + (tells_perplexity(job.spec(), job.samples()) ? 1 : 0);
  const size_t count = job.manifest().metric_names.size() - others;
  std::vector<int64_t> samples(count, 0), right(count, 0);
  for (int64_t i = 0; i < job.samples().evaluated(); ++i) {
    const auto target = static_cast<size_t>(targets[i]);
    if (targets[i] < 0 || target >= count) continue;
    ++samples[target];
    right[target] += memory.evaluation().correct[i];
  }
  for (size_t c = 0; c < count; ++c)
    metrics.push_back(samples[c] == 0 ? std::nan("") : static_cast<double>(right[c]) / static_cast<double>(samples[c]));
}

std::vector<double> metrics_of_evaluation(const Job& job, comm::JobMemory& memory, const EvaluationResult& result) {
  const spec::TrainSection& train = job.spec().train;
  const int64_t samples = job.samples().evaluated();
  std::vector<double> metrics;
  size_t column = 0;
  for (size_t k = 0; k < train.top_k.size(); ++k)
    metrics.push_back(sum_of(column_of(job, memory, column++), samples) / static_cast<double>(result.predictions));
  if (train.per_class) add_classes(job, memory, column_of(job, memory, column++), metrics);
  for (size_t i = 0; i < train.metrics.size(); ++i)
    metrics.push_back(sum_of(column_of(job, memory, column++), samples) / static_cast<double>(samples));
  if (tells_perplexity(job.spec(), job.samples())) metrics.push_back(std::exp(result.loss));
  return metrics;
}

}  // namespace

bool evaluate_share(Workplace& place, const StageOrder& order, Step step) {
  const spec::JobSpec& spec = place.job.spec();
  comm::JobMemory& memory = place.memory;
  comm::WorkerPulse& pulse = memory.pulse(order.rank());
  data::EvaluationOptions options;
  options.batch = spec.train.eval_batch;
  options.first = order.rank().value;
  options.stride = order.all_workers();
  options.readers = std::max<int64_t>(1, spec.data.readers);
  options.prefetch = spec::first_prefetch(spec.data);
  options.memory = place.device.host_memory();
  data::Evaluation evaluation(place.job.samples().test(), options);
  std::optional<data::LoadedBatch> batch;
  while (waiting(pulse, comm::Activity::reading, [&] { return (batch = evaluation.next()).has_value(); })) {
    const int64_t begun_ns = monotonic_ns();
    pulse.beat(comm::Activity::evaluating, begun_ns);
    // A stream for each batch, the same for every worker that may take it.
    operators::begin_random_stream(static_cast<uint64_t>(spec.job.seed) + static_cast<uint64_t>(batch->number()),
                                   operators::evaluation_stream, static_cast<uint64_t>(step.value));
    const model::Evaluation result = place.job.network().model().evaluate(as_tensors(*batch, place.device));
    const int64_t first = batch->number() * options.batch;
    const torch::Tensor losses = result.losses.cpu().contiguous();
    const torch::Tensor correct = result.correct.to(torch::kInt).cpu().contiguous();
    std::memcpy(memory.evaluation().losses + first, losses.const_data_ptr(), losses.nbytes());
    std::memcpy(memory.evaluation().correct + first, correct.const_data_ptr(), correct.nbytes());
    for (size_t c = 0; c < result.columns.size(); ++c) {
      const torch::Tensor column = result.columns[c].cpu().contiguous();
      std::memcpy(column_of(place.job, memory, c) + first, column.const_data_ptr(), column.nbytes());
    }
    if (memory.gate().aborted()) return false;
    memory.clock().note_evaluation_batch(begun_ns, monotonic_ns());
    pulse.beat(comm::Activity::computing, monotonic_ns());
  }
  return true;
}

EvaluationResult result_of_evaluation(const Job& job, comm::JobMemory& memory) {
  const comm::EvaluationResults results = memory.evaluation();
  const int64_t samples = job.samples().evaluated();
  double loss = 0;
  int64_t correct = 0;
  for (int64_t i = 0; i < samples; ++i) {
    loss += static_cast<double>(results.losses[i]);
    correct += results.correct[i];
  }
  const int64_t predictions = samples * job.network().predictions_per_sample(job.samples().train().shape());
  const double accuracy = predictions == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(predictions);
  EvaluationResult result = {loss / static_cast<double>(samples), accuracy, predictions};
  result.metrics = metrics_of_evaluation(job, memory, result);
  return result;
}

bool publish_evaluation(Workplace& place, Step step) {
  comm::JobMemory& memory = place.memory;
  const EvaluationResult result = result_of_evaluation(place.job, memory);
  comm::RecordHead& head = *memory.ring().pending().head;
  head.kind = comm::RecordKind::evaluation;
  head.step = step;
  head.epoch = place.job.manifest().epoch_at(Step(step.value - 1));
  head.time_ns = monotonic_ns();
  head.predictions = result.predictions;
  head.loss = result.loss;
  head.accuracy = result.accuracy;
  const size_t digests = place.job.manifest().digest_names.size();
  for (size_t i = 0; i < result.metrics.size(); ++i)
    memory.ring().pending().digests[digests + i].store(std::bit_cast<uint64_t>(result.metrics[i]));
  if (!memory.ring().publish()) return false;
  memory.commit().note_evaluated(step);
  memory.clock().note_progress(monotonic_ns());
  return true;
}

}  // namespace estrain::train

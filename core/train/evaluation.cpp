#include "core/train/evaluation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/base/clock.h"
#include "core/comm/step_record.h"
#include "core/data/evaluation.h"
#include "core/operators/random_stream.h"
#include "core/spec/defaults.h"
#include "core/train/batch_tensors.h"
#include "core/train/waiting.h"

namespace estrain::train {
namespace {

// The batch that was begun at `begun_ns` is done: for the launcher, which has to know how long one may take. Where the
// machine stood still meanwhile, that does not count.
void note_batch(comm::MemoryHeader& header, int64_t begun_ns) {
  const int64_t took = monotonic_ns() - std::max(begun_ns, header.progress_ns.load());
  int64_t longest = header.longest_evaluation_ns.load();
  while (took > longest && !header.longest_evaluation_ns.compare_exchange_weak(longest, took)) {
  }
}

// Behind the losses: one after another.
float* column_of(const Job& job, comm::JobMemory& memory, size_t column) {
  return memory.evaluation_losses() + static_cast<int64_t>(column + 1) * job.evaluation_samples();
}

double sum_of(const float* values, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(values[i]);
  return sum;
}

// Of each class: the part of its samples that were right.
void add_classes(const Job& job, comm::JobMemory& memory, const float* targets, std::vector<double>& metrics) {
  const std::vector<std::string>& names = job.manifest().metric_names;
  const auto count = static_cast<size_t>(
      std::ranges::count_if(names, [](const std::string& name) { return name.starts_with("class"); }));
  std::vector<int64_t> samples(count, 0), right(count, 0);
  for (int64_t i = 0; i < job.evaluation_samples(); ++i) {
    const auto target = static_cast<size_t>(targets[i]);
    if (targets[i] < 0 || target >= count) continue;
    ++samples[target];
    right[target] += memory.evaluation_correct()[i];
  }
  for (size_t c = 0; c < count; ++c)
    metrics.push_back(samples[c] == 0 ? std::nan("") : static_cast<double>(right[c]) / static_cast<double>(samples[c]));
}

std::vector<double> metrics_of_evaluation(const Job& job, comm::JobMemory& memory, const EvaluationResult& result) {
  const spec::TrainSection& train = job.spec().train;
  const int64_t samples = job.evaluation_samples();
  std::vector<double> metrics;
  size_t column = 0;
  for (size_t k = 0; k < train.top_k.size(); ++k)
    metrics.push_back(sum_of(column_of(job, memory, column++), samples) / static_cast<double>(result.predictions));
  if (train.per_class) add_classes(job, memory, column_of(job, memory, column++), metrics);
  for (size_t i = 0; i < train.metrics.size(); ++i)
    metrics.push_back(sum_of(column_of(job, memory, column++), samples) / static_cast<double>(samples));
  if (job.tells_perplexity()) metrics.push_back(std::exp(result.loss));
  return metrics;
}

}  // namespace

bool evaluate_share(Workplace& place, const StageOrder& order, int64_t step) {
  const spec::JobSpec& spec = place.job.spec();
  comm::JobMemory& memory = place.memory;
  comm::WorkerPulse& pulse = memory.pulse(order.worker.value);
  data::EvaluationOptions options;
  options.batch = spec.train.eval_batch;
  options.first = order.worker.value;
  options.stride = order.workers();
  options.readers = std::max<int64_t>(1, spec.data.readers);
  options.prefetch = spec::first_prefetch(spec.data);
  options.memory = place.device.host_memory();
  data::Evaluation evaluation(*place.job.data().test, options);
  std::optional<data::Batch> batch;
  while (waiting(pulse, comm::Activity::reading, [&] { return (batch = evaluation.next()).has_value(); })) {
    const int64_t begun_ns = monotonic_ns();
    pulse.beat(comm::Activity::evaluating, begun_ns);
    // A stream for each batch, whoever takes it.
    operators::begin_random_stream(static_cast<uint64_t>(spec.job.seed) + static_cast<uint64_t>(batch->number()),
                                   operators::evaluation_stream, static_cast<uint64_t>(step));
    const model::Evaluation result = place.job.model().evaluate(as_tensors(*batch, place.device));
    const int64_t first = batch->number() * options.batch;
    const torch::Tensor losses = result.losses.cpu().contiguous();
    const torch::Tensor correct = result.correct.to(torch::kInt).cpu().contiguous();
    std::memcpy(memory.evaluation_losses() + first, losses.const_data_ptr(), losses.nbytes());
    std::memcpy(memory.evaluation_correct() + first, correct.const_data_ptr(), correct.nbytes());
    for (size_t c = 0; c < result.columns.size(); ++c) {
      const torch::Tensor column = result.columns[c].cpu().contiguous();
      std::memcpy(column_of(place.job, memory, c) + first, column.const_data_ptr(), column.nbytes());
    }
    if (memory.header().abort.load() != 0) return false;
    note_batch(memory.header(), begun_ns);
    pulse.beat(comm::Activity::computing, monotonic_ns());
  }
  return true;
}

EvaluationResult result_of_evaluation(const Job& job, comm::JobMemory& memory) {
  const int64_t samples = job.evaluation_samples();
  double loss = 0;
  int64_t correct = 0;
  for (int64_t i = 0; i < samples; ++i) {
    loss += static_cast<double>(memory.evaluation_losses()[i]);
    correct += memory.evaluation_correct()[i];
  }
  const int64_t predictions = samples * job.predictions_per_sample();
  const double accuracy = predictions == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(predictions);
  EvaluationResult result = {loss / static_cast<double>(samples), accuracy, predictions};
  result.metrics = metrics_of_evaluation(job, memory, result);
  return result;
}

bool publish_evaluation(Workplace& place, int64_t step) {
  comm::JobMemory& memory = place.memory;
  const EvaluationResult result = result_of_evaluation(place.job, memory);
  comm::RecordHead& head = *comm::pending_record(memory).head;
  head.kind = comm::RecordKind::evaluation;
  head.step = step;
  head.epoch = place.job.manifest().epoch_at(step - 1);
  head.time_ns = monotonic_ns();
  head.predictions = result.predictions;
  head.loss = result.loss;
  head.accuracy = result.accuracy;
  const size_t digests = place.job.manifest().digest_names.size();
  for (size_t i = 0; i < result.metrics.size(); ++i)
    comm::pending_record(memory).digests[digests + i].store(std::bit_cast<uint64_t>(result.metrics[i]));
  if (!comm::publish_record(memory)) return false;
  memory.header().evaluated.store(step);
  memory.header().progress_ns.store(monotonic_ns());
  return true;
}

}  // namespace estrain::train

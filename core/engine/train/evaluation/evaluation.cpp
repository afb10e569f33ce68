#include "core/engine/train/evaluation/evaluation.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/files/temporary_folder.h"
#include "core/data/reading/evaluation_reader.h"
#include "core/engine/operators/random_stream.h"
#include "core/engine/train/evaluation/outputs_for_metrics.h"
#include "core/engine/train/evaluation/users_metrics.h"
#include "core/engine/train/job/batch_tensors.h"
#include "core/engine/train/job/meeting.h"
#include "core/job/spec/defaults.h"
#include "core/state/comm/records/step_record.h"

namespace estrain::train {
namespace {

// A trial of the user's function takes batches spread over the evaluation: of sorted samples it gets many classes.
constexpr int64_t kTriedAtOnce = 4, kTriedBatches = 16;

template <typename T>
double sum_of(const T* values, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(values[i]);
  return sum;
}

// Copies the numbers of a batch's samples to the samples' places. The places begin at `out`.
template <typename T>
void put(const torch::Tensor& values, T* out) {
  const torch::Tensor there = values.to(c10::CppTypeToScalarType<T>::value).cpu().contiguous();
  std::memcpy(out, there.const_data_ptr(), there.nbytes());
}

// Adds, for each class, the fraction of correct samples of the class.
void add_classes(const TrainingJob& job, const comm::EvaluationResults& results, const float* targets,
                 std::vector<double>& metrics) {
  const spec::TrainSection& train = job.spec().train;
  const size_t others = train.top_k.size() + train.metrics.size() + train.metrics_names.size() +
                        (tells_perplexity(job.spec(), job.samples()) ? 1 : 0);
  const size_t count = job.manifest().metric_names.size() - others;
  std::vector<int64_t> samples(count, 0), right(count, 0);
  for (int64_t i = 0; i < results.samples; ++i) {
    const auto target = static_cast<size_t>(targets[i]);
    if (targets[i] < 0 || target >= count) continue;
    ++samples[target];
    right[target] += results.correct[i];
  }
  for (size_t c = 0; c < count; ++c)
    metrics.push_back(samples[c] == 0 ? std::nan("") : static_cast<double>(right[c]) / static_cast<double>(samples[c]));
}

std::vector<double> metrics_of_evaluation(const TrainingJob& job, const comm::EvaluationResults& results,
                                          const EvaluationResult& result) {
  const spec::TrainSection& train = job.spec().train;
  std::vector<double> metrics;
  int64_t column = 0;
  const auto sum_of_next = [&] { return sum_of(results.column(column++), results.samples); };
  for (size_t k = 0; k < train.top_k.size(); ++k)
    metrics.push_back(sum_of_next() / static_cast<double>(result.predictions));
  if (train.per_class) add_classes(job, results, results.column(column++), metrics);
  if (metrics_of(job.spec()).target_weight) ++column;
  for (size_t i = 0; i < train.metrics.size(); ++i)
    metrics.push_back(sum_of_next() / static_cast<double>(results.samples));
  if (tells_perplexity(job.spec(), job.samples())) metrics.push_back(std::exp(result.loss));
  metrics.insert(metrics.end(), results.numbers, results.numbers + train.metrics_names.size());
  return metrics;
}

double value_of(const TrainingJob& job, const EvaluationResult& result, const std::string& metric) {
  if (metric == "loss") return result.loss;
  if (metric == "accuracy") return result.accuracy;
  const std::vector<std::string>& names = job.manifest().metric_names;
  return result.metrics[static_cast<size_t>(std::ranges::find(names, metric) - names.begin())];
}

struct Past {
  double best, worse;  // worse: evaluations in a row without a better result
};

Past past_after(const TrainingJob& job, comm::JobMemory& memory, Step step, std::byte* state) {
  const double* kept = job.places().metrics.early_stop(state);
  const Past past = {kept[0], kept[1]};
  if (!job.timetable().evaluates_after(step)) return past;
  if (memory.commit().evaluated() != step)
    throw Error::make(Fault::bug, "step {} is trained further before it was evaluated", step);
  const EvaluationResult result = result_of_evaluation(job, memory);
  const spec::EarlyStopSection& settings = job.spec().early_stop;
  const double value = value_of(job, result, settings.metric);
  const bool falls = spec::improves_by_falling(job.spec().train, settings.metric);
  const bool is_better = falls ? value < past.best - settings.min_delta : value > past.best + settings.min_delta;
  if (!is_better) return {past.best, past.worse + 1};
  return {value, 0};
}

// Returns the type in which an output is written, and numpy's name of the type. Numbers of 16 bits are written as
// float32, booleans as uint8.
std::pair<at::ScalarType, const char*> written_type(const std::string& name, at::ScalarType type) {
  switch (type) {
    case torch::kFloat:
    case torch::kHalf:
    case torch::kBFloat16:
      return {torch::kFloat, "float32"};
    case torch::kDouble:
      return {torch::kDouble, "float64"};
    case torch::kLong:
      return {torch::kLong, "int64"};
    case torch::kInt:
      return {torch::kInt, "int32"};
    case torch::kShort:
      return {torch::kShort, "int16"};
    case torch::kChar:
      return {torch::kChar, "int8"};
    case torch::kByte:
    case torch::kBool:
      return {torch::kByte, "uint8"};
    default:
      throw Error::make(Fault::spec, "output {} of the model is of type {}, which no file of outputs holds", name,
                        c10::toString(type))
          .advise("convert it in the module");
  }
}

void write_rows(const std::string& name, const torch::Tensor& rows, int64_t first, checkpoint::OutputParts& parts) {
  const auto [type, type_name] = written_type(name, rows.scalar_type());
  const torch::Tensor there = rows.to(type).cpu().contiguous();
  parts.put({name, type_name, there.sizes().slice(1).vec()}, first, there.size(0),
            static_cast<const std::byte*>(there.const_data_ptr()));
}

// For `estrain evaluate` (core/state/checkpoint/models/output_parts.h): the outputs of the model, the targets, and each
// sample's loss. The batch begins at sample `first`.
void write_outputs(const model::EvaluatedBatch& batch, int64_t first, checkpoint::OutputParts& parts) {
  for (const auto& [name, rows] : batch.outputs) write_rows(name, rows, first, parts);
  write_rows("losses", batch.losses, first, parts);
}

// The places for the outputs of an evaluation, which this worker's batches take part in; nothing if nobody wants them.
std::optional<checkpoint::OutputParts> parts_for_metrics(const Workplace& place, comm::WorkerPulse& pulse) {
  if (place.rows.empty()) return std::nullopt;
  when_there_is_room(place.memory, pulse, [&] { make_folders(place.rows); });
  return checkpoint::OutputParts(place.rows, ::getpid());
}

// Calls the user's function. Nothing: aborted meanwhile.
std::optional<std::vector<double>> call_users_function(Workplace& place, comm::WorkerPulse& pulse) {
  const std::string& folder = place.outputs != nullptr ? place.outputs->folder() : place.rows;
  return users_metrics(place.job.spec(), folder, [&] {
    pulse.beat(comm::Activity::evaluating, monotonic_ns());
    return !place.memory.gate().aborted();
  });
}

void remove_content(const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) std::filesystem::remove(entry.path());
}

model::EvaluatedBatch evaluated(const TrainingJob& job, device::ComputeDevice& device, const data::LoadedBatch& batch,
                                Step step) {
  // Each batch has a stream of its own, the same for every worker that may take the batch.
  operators::begin_random_stream(static_cast<uint64_t>(job.spec().job.seed) + static_cast<uint64_t>(batch.number()),
                                 operators::evaluation_stream, static_cast<uint64_t>(step.value));
  return job.network().model().evaluate(as_tensors(batch, device));
}

}  // namespace

void try_users_metrics(const TrainingJob& job, device::ComputeDevice& device) {
  const TemporaryFolder folder("metrics");
  checkpoint::OutputParts parts(folder.path(), 0);
  data::EvaluationOptions options;
  options.batch = std::min(kTriedAtOnce, job.spec().train.eval_batch);
  const int64_t batches = data::EvaluationReader::batches(job.samples().test(), options.batch);
  options.stride = (batches + kTriedBatches - 1) / kTriedBatches;
  options.pads_to_longest = true;
  data::EvaluationReader evaluation(job.samples().test(), options);
  int64_t rows = 0;
  while (const auto batch = evaluation.next()) {
    write_outputs(evaluated(job, device, *batch, Step(0)), rows, parts);
    rows += batch->size();
  }
  with_context(fmt::format("a trial with {} samples of the evaluation", rows),
               [&] { users_metrics(job.spec(), folder.path(), [] { return true; }); });
}

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
  std::optional<checkpoint::OutputParts> for_metrics = parts_for_metrics(place, pulse);
  checkpoint::OutputParts* outputs = for_metrics ? &*for_metrics : place.outputs;
  options.pads_to_longest = outputs != nullptr;  // the rows of an output have one shape
  data::EvaluationReader evaluation(place.job.samples().test(), options);
  std::optional<data::LoadedBatch> batch;
  while (waiting(pulse, comm::Activity::reading, [&] { return (batch = evaluation.next()).has_value(); })) {
    const int64_t begun_ns = monotonic_ns();
    pulse.beat(comm::Activity::evaluating, begun_ns);
    const model::EvaluatedBatch result = evaluated(place.job, place.device, *batch, step);
    const int64_t first = batch->number() * options.batch;
    const comm::EvaluationResults results = memory.evaluation();
    put(result.losses, results.losses + first);
    put(result.correct, results.correct + first);
    put(result.counted, results.counted + first);
    for (int64_t c = 0; c < results.num_columns; ++c)
      put(result.columns[static_cast<size_t>(c)], results.column(c) + first);
    if (for_metrics) {
      when_there_is_room(memory, pulse, [&] { write_outputs(result, first, *for_metrics); });
    } else if (outputs != nullptr) {
      write_outputs(result, first, *outputs);
    }
    if (memory.gate().aborted()) return false;
    memory.clock().note_evaluation_batch(begun_ns, monotonic_ns());
    pulse.beat(comm::Activity::computing, monotonic_ns());
  }
  return true;
}

EvaluationResult result_of_evaluation(const TrainingJob& job, comm::JobMemory& memory) {
  const comm::EvaluationResults results = memory.evaluation();
  const double counted = sum_of(results.counted, results.samples), correct = sum_of(results.correct, results.samples);
  const auto each = static_cast<double>(job.network().predictions_per_sample(job.samples().train().shape()));
  // A sample's loss is a mean over all of its predictions, so a sample without a target in half of them counts half.
  // With weights of classes, each prediction has the weight of its target.
  const model::MetricsWanted wanted = metrics_of(job.spec());
  double weight = each == 0 ? static_cast<double>(results.samples) : counted / each;
  if (wanted.target_weight) weight = sum_of(results.column(wanted.weight_column()), results.samples);
  EvaluationResult result;
  result.loss = sum_of(results.losses, results.samples) / weight;
  result.accuracy = each == 0 ? 0 : correct / counted;
  result.predictions = static_cast<int64_t>(counted);
  result.metrics = metrics_of_evaluation(job, results, result);
  return result;
}

bool take_users_metrics(Workplace& place, const StageOrder& order, Step step) {
  const spec::TrainSection& train = place.job.spec().train;
  if (train.metrics_file.empty()) return true;
  const std::span<double> numbers(place.memory.evaluation().numbers, train.metrics_names.size());
  std::optional<HostsCorrespondence> hosts;
  if (order.beyond && !hosts.emplace(place, order, step).bring_rows_together()) return false;
  if (!hosts || hosts->leads()) {
    const auto found = call_users_function(place, place.memory.pulse(order.rank()));
    if (!found) return false;
    std::ranges::copy(*found, numbers.begin());
  }
  if (hosts && !hosts->share(numbers)) return false;
  if (place.outputs == nullptr) remove_content(place.rows);
  return true;
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

void write_first_early_stop(const TrainingJob& job, std::byte* state) {
  const double infinity = std::numeric_limits<double>::infinity();
  double* kept = job.places().metrics.early_stop(state);
  kept[0] = spec::improves_by_falling(job.spec().train, job.spec().early_stop.metric) ? infinity : -infinity;
  kept[1] = 0;
}

bool ends_early(const TrainingJob& job, comm::JobMemory& memory, Step step, std::byte* state) {
  if (!job.places().metrics.has_early_stop() || !job.timetable().evaluates_after(step)) return false;
  return past_after(job, memory, step, state).worse >= static_cast<double>(job.spec().early_stop.patience);
}

void keep_early_stop(const TrainingJob& job, comm::JobMemory& memory, Step step, std::byte* state,
                     std::byte* new_state) {
  if (!job.places().metrics.has_early_stop()) return;
  const Past past = past_after(job, memory, step, state);
  double* kept = job.places().metrics.early_stop(new_state);
  kept[0] = past.best;
  kept[1] = past.worse;
}

}  // namespace estrain::train

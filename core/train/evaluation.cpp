#include "core/train/evaluation.h"

#include <algorithm>
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
    if (memory.header().abort.load() != 0) return false;
    note_batch(memory.header(), begun_ns);
    pulse.beat(comm::Activity::computing, monotonic_ns());
  }
  return true;
}

EvaluationResult result_of_evaluation(const Job& job, comm::JobMemory& memory) {
  const int64_t samples = memory.header().evaluation_samples;
  double loss = 0;
  int64_t correct = 0;
  for (int64_t i = 0; i < samples; ++i) {
    loss += static_cast<double>(memory.evaluation_losses()[i]);
    correct += memory.evaluation_correct()[i];
  }
  const int64_t predictions = samples * job.predictions_per_sample();
  const double accuracy = predictions == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(predictions);
  return {loss / static_cast<double>(samples), accuracy, predictions};
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
  if (!comm::publish_record(memory)) return false;
  memory.header().evaluated.store(step);
  memory.header().progress_ns.store(monotonic_ns());
  return true;
}

}  // namespace estrain::train

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
  data::Evaluation evaluation(*place.job.data().test, options);
  std::optional<data::Batch> batch;
  while (waiting(pulse, comm::Activity::reading, [&] { return (batch = evaluation.next()).has_value(); })) {
    const int64_t begun_ns = monotonic_ns();
    pulse.beat(comm::Activity::evaluating, begun_ns);
    // A stream for each batch, whoever takes it.
    operators::begin_random_stream(static_cast<uint64_t>(spec.job.seed) + static_cast<uint64_t>(batch->number()),
                                   operators::evaluation_stream, static_cast<uint64_t>(step.value));
    const model::Evaluation result = place.job.model().evaluate(as_tensors(*batch, place.device));
    const int64_t first = batch->number() * options.batch;
    const torch::Tensor losses = result.losses.cpu().contiguous();
    const torch::Tensor correct = result.correct.to(torch::kInt).cpu().contiguous();
    std::memcpy(memory.evaluation().losses + first, losses.const_data_ptr(), losses.nbytes());
    std::memcpy(memory.evaluation().correct + first, correct.const_data_ptr(), correct.nbytes());
    if (memory.gate().aborted()) return false;
    memory.clock().note_evaluation_batch(begun_ns, monotonic_ns());
    pulse.beat(comm::Activity::computing, monotonic_ns());
  }
  return true;
}

EvaluationResult result_of_evaluation(const Job& job, comm::JobMemory& memory) {
  const comm::EvaluationResults results = memory.evaluation();
  const int64_t samples = results.samples;
  double loss = 0;
  int64_t correct = 0;
  for (int64_t i = 0; i < samples; ++i) {
    loss += static_cast<double>(results.losses[i]);
    correct += results.correct[i];
  }
  const int64_t predictions = samples * job.predictions_per_sample();
  const double accuracy = predictions == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(predictions);
  return {loss / static_cast<double>(samples), accuracy, predictions};
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
  if (!memory.ring().publish()) return false;
  memory.commit().note_evaluated(step);
  memory.clock().note_progress(monotonic_ns());
  return true;
}

}  // namespace estrain::train

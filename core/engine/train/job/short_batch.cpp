#include "core/engine/train/job/short_batch.h"

#include <ATen/core/grad_mode.h>

#include "core/engine/operators/random_stream.h"
#include "core/engine/train/job/batch_tensors.h"

namespace estrain::train {
namespace {

std::optional<std::string> why_refused(const Trial& trial) {
  const data::LoadedBatch batch = trial.job.samples().first_batch();
  const model::Batch tensors = as_tensors(batch, trial.device);
  const at::NoGradGuard no_graph;
  operators::begin_random_stream(0, operators::warming_stream, 0);
  try {
    trial.job.network().model().loss(tensors.first(1));
    trial.device.finish();
  } catch (const Error& error) {
    if (error.fault() != Fault::spec) throw;
    return error.message();
  }
  return std::nullopt;
}

Error refused(const Job& job, const std::string& why) {
  const int64_t samples = job.samples().train().size(), each = job.samples().sampler().samples_per_est();
  const std::string share =
      fmt::format("{} training samples over {} ESTs (job.ests) are {} each", samples, job.spec().job.ests, each);
  if (job.samples().sampler().batch() == 1) {
    return Error::make(Fault::infeasible, "every mini-batch has one sample ({}, data.batch = {}): {}", share,
                       job.spec().data.batch, why)
        .advise(each == 1 ? "use fewer ESTs or more data" : "set data.batch to 2 or more");
  }
  return Error::make(Fault::infeasible, "the last mini-batch of an epoch has one sample ({}, data.batch = {}): {}",
                     share, job.spec().data.batch, why)
      .advise("set data.drop_last = true, or another data.batch, which does not leave one sample over");
}

}  // namespace

std::optional<int64_t> shortest_batch(const Job& job, Step step) {
  return job.timetable().batches().shortest_batch(step, Step(job.timetable().total_steps()));
}

std::optional<Error> refusal_of_short_batch(const Trial& trial, Step step) {
  if (shortest_batch(trial.job, step) != 1) return std::nullopt;
  const std::optional<std::string> why = why_refused(trial);
  return why ? std::optional(refused(trial.job, *why)) : std::nullopt;
}

}  // namespace estrain::train

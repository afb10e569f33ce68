#include "core/engine/train/evaluation/learning_rates.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/engine/optim/schedule.h"
#include "core/engine/train/evaluation/evaluation.h"

namespace estrain::train {
namespace {

using Plateau = MetricPlaces::Plateau;

Plateau learnt_after(const TrainingJob& job, comm::JobMemory& memory, Step step, std::byte* state) {
  Plateau learnt = job.places().metrics.read_plateau(state);
  if (!job.timetable().evaluates_after(step)) return learnt;
  if (memory.commit().evaluated() != step)
    throw Error::make(Fault::bug, "step {} is trained further before it was evaluated", step);
  const EvaluationResult result = result_of_evaluation(job, memory);
  const spec::ScheduleSection& schedule = job.spec().schedule;
  const double metric = schedule.metric == spec::Metric::accuracy ? result.accuracy : result.loss;
  optim::plateau_step(schedule, metric, learnt.state, learnt.rates);
  return learnt;
}

}  // namespace

std::vector<double> learning_rates(TrainingJob& job, comm::JobMemory& memory, Step step, std::byte* state) {
  if (!job.places().metrics.has_plateau()) return job.schedules().rates_at(step);
  std::vector<double> rates = learnt_after(job, memory, step, state).rates;
  for (double& rate : rates) rate *= job.timetable().batches().lr_factor(step);
  return rates;
}

void keep_schedule(TrainingJob& job, comm::JobMemory& memory, Step step, std::byte* state, std::byte* new_state) {
  keep_early_stop(job, memory, step, state, new_state);
  const MetricPlaces& metrics = job.places().metrics;
  if (metrics.has_plateau()) metrics.write_plateau(new_state, learnt_after(job, memory, step, state));
}

bool needs_evaluation(const TrainingJob& job, const comm::JobMemory& memory, Step step) {
  if (!job.timetable().evaluates_after(step)) return false;
  const Step evaluated = memory.commit().evaluated();
  const MetricPlaces& metrics = job.places().metrics;
  return metrics.has_plateau() || metrics.has_early_stop() ? evaluated != step : evaluated < step;
}

}  // namespace estrain::train

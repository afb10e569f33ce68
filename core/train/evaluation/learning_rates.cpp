#include "core/train/evaluation/learning_rates.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/optim/plateau.h"
#include "core/train/evaluation/early_stop.h"
#include "core/train/evaluation/evaluation.h"

namespace estrain::train {
namespace {

struct Learnt {
  optim::PlateauState state;
  std::vector<double> rates;
};

Learnt learnt_before(const Job& job, std::byte* state) {
  const double* at = job.plateau(state);
  return {{at[0], at[1], at[2]}, {at + 3, at + 3 + job.optimizer().groups().groups.size()}};
}

Learnt learnt_after(const Job& job, comm::JobMemory& memory, Step step, std::byte* state) {
  Learnt learnt = learnt_before(job, state);
  if (!job.evaluates_after(step)) return learnt;
  if (memory.commit().evaluated() != step)
    throw Error::make(Fault::bug, "step {} is trained further before it was evaluated", step);
  const EvaluationResult result = result_of_evaluation(job, memory);
  const spec::ScheduleSection& schedule = job.spec().schedule;
  const double metric = schedule.metric == spec::Metric::accuracy ? result.accuracy : result.loss;
  optim::plateau_step(schedule, metric, learnt.state, learnt.rates);
  return learnt;
}

}  // namespace

std::vector<double> learning_rates(Job& job, comm::JobMemory& memory, Step step, std::byte* state) {
  return job.follows_metric() ? learnt_after(job, memory, step, state).rates : job.learning_rates(step);
}

void keep_schedule(Job& job, comm::JobMemory& memory, Step step, std::byte* state, std::byte* new_state) {
  keep_early_stop(job, memory, step, state, new_state);
  if (!job.follows_metric()) return;
  const Learnt learnt = learnt_after(job, memory, step, state);
  job.write_plateau(new_state, learnt.state, learnt.rates);
}

bool needs_evaluation(const Job& job, const comm::JobMemory& memory, Step step) {
  if (!job.evaluates_after(step)) return false;
  const Step evaluated = memory.commit().evaluated();
  return job.follows_metric() || job.may_end_early() ? evaluated != step : evaluated < step;
}

}  // namespace estrain::train

#include "core/engine/train/evaluation/early_stop.h"

#include <limits>

#include "core/base/error.h"
#include "core/engine/train/evaluation/evaluation.h"

namespace estrain::train {
namespace {

struct Past {
  double best, worse;  // worse: evaluations in a row without a better result
};

Past past_after(const Job& job, comm::JobMemory& memory, Step step, std::byte* state) {
  const double* kept = job.places().metrics.early_stop(state);
  const Past past = {kept[0], kept[1]};
  if (!job.timetable().evaluates_after(step)) return past;
  if (memory.commit().evaluated() != step)
    throw Error::make(Fault::bug, "step {} is trained further before it was evaluated", step);
  const EvaluationResult result = result_of_evaluation(job, memory);
  const spec::EarlyStopSection& settings = job.spec().early_stop;
  const bool is_better = settings.metric == spec::Metric::accuracy ? result.accuracy > past.best + settings.min_delta
                                                                   : result.loss < past.best - settings.min_delta;
  if (!is_better) return {past.best, past.worse + 1};
  return {settings.metric == spec::Metric::accuracy ? result.accuracy : result.loss, 0};
}

}  // namespace

void write_first_early_stop(const Job& job, std::byte* state) {
  const double infinity = std::numeric_limits<double>::infinity();
  double* kept = job.places().metrics.early_stop(state);
  kept[0] = job.spec().early_stop.metric == spec::Metric::accuracy ? -infinity : infinity;
  kept[1] = 0;
}

bool ends_early(const Job& job, comm::JobMemory& memory, Step step, std::byte* state) {
  if (!job.places().metrics.has_early_stop() || !job.timetable().evaluates_after(step)) return false;
  return past_after(job, memory, step, state).worse >= static_cast<double>(job.spec().early_stop.patience);
}

void keep_early_stop(const Job& job, comm::JobMemory& memory, Step step, std::byte* state, std::byte* new_state) {
  if (!job.places().metrics.has_early_stop()) return;
  const Past past = past_after(job, memory, step, state);
  double* kept = job.places().metrics.early_stop(new_state);
  kept[0] = past.best;
  kept[1] = past.worse;
}

}  // namespace estrain::train

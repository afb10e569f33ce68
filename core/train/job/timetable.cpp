#include "core/train/job/timetable.h"

namespace estrain::train {

int64_t Timetable::total_steps() const {
  return spec_.train.steps ? *spec_.train.steps : *spec_.train.epochs * batches_per_epoch_;
}

bool Timetable::evaluates() const { return has_test_data_ && spec_.train.eval_every >= 0; }

bool Timetable::evaluates_after(Step step) const {
  if (!evaluates() || step == Step(0)) return false;
  const int64_t period = spec_.train.eval_every > 0 ? spec_.train.eval_every : batches_per_epoch_;
  return step.value % period == 0 || step.value == total_steps();
}

bool Timetable::saves_after(Step step) const {
  if (spec_.checkpoint.best != spec::Best::none && evaluates_after(step)) return true;
  return spec_.checkpoint.every > 0 && step.value % spec_.checkpoint.every == 0;
}

}  // namespace estrain::train

#include "core/engine/train/job/timetable.h"

namespace estrain::train {

int64_t Timetable::total_steps() const {
  return spec_.train.steps ? *spec_.train.steps : batches_.end_of(Epoch(*spec_.train.epochs)).value;
}

bool Timetable::evaluates() const { return has_test_data_ && spec_.train.eval_every >= 0; }

bool Timetable::evaluates_after(Step step) const {
  if (!evaluates() || step == Step(0)) return false;
  const int64_t every = spec_.train.eval_every;
  return (every > 0 ? step.value % every == 0 : batches_.ends_epoch(step)) || step.value == total_steps();
}

bool Timetable::saves_after(Step step) const {
  if (spec_.checkpoint.best != spec::Best::none && evaluates_after(step)) return true;
  return spec_.checkpoint.every > 0 && step.value % spec_.checkpoint.every == 0;
}

}  // namespace estrain::train

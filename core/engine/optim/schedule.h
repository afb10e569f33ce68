#pragma once
// The learning rate of one parameter group at every step, equal to torch.optim.lr_scheduler's to the last bit.
//
// PyTorch's schedulers are recursive: each call of scheduler.step() computes the next lr from the last lr, in double.
// Closed forms of the schedules differ in the last bits, so the code here does the same operations in the same order:
//   constant   lr stays
//   step       StepLR(period, gamma)
//   multistep  MultiStepLR(milestones, gamma)
//   cosine     CosineAnnealingLR(period, eta_min)
//   linear     LinearLR(start_factor, end_factor, period)
//   polynomial PolynomialLR(period, power)
//   onecycle   OneCycleLR(max_lr=lr, period, pct_start, anneal_strategy, div_factor, final_div_factor, three_phase,
//              cycle_momentum=False); at most as many calls as the period
//   plateau    stays; plateau_step() changes the rate
//   exponential  ExponentialLR(gamma)
//   restarts     CosineAnnealingWarmRestarts(period, period_factor, eta_min)
//   inverse_sqrt LambdaLR of 1 / sqrt((t + period) / period): get_inverse_sqrt_schedule of transformers after its
//                warm-up, with the period as timescale
//   wsd          LambdaLR of get_wsd_schedule of transformers after its warm-up: 1 for `period` calls, then down to
//                min_factor in `decay` calls
//   table        LambdaLR of a table of factors
//   warmup > 0 SequentialLR([LinearLR(warmup_start, 1, warmup), a schedule above], milestones=[warmup]).
//              SequentialLR starts the second schedule by its closed form (constant is ConstantLR(factor=1) there)
//
// A schedule depends only on its settings, the base lr and the number of calls, so a schedule has no saved state.

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/ids.h"
#include "core/engine/optim/parameter_groups.h"
#include "core/job/batches/batch_schedule.h"
#include "core/job/spec/job_spec.h"
#include "core/job/spec/optimizer_section.h"

namespace estrain::optim {

class Schedule {
 public:
  Schedule(const spec::ScheduleSection& settings, double base_lr);

  double lr() const { return lr_; }
  int64_t calls() const { return calls_; }

  // Does one scheduler.step().
  void advance();

  // Goes to the state after `calls` calls: forward from the current state, backward by a restart (10 ns to 50 ns per
  // call).
  void seek(int64_t calls);

 private:
  void start();

  spec::ScheduleSection settings_;
  double base_lr_;
  double lr_ = 0;
  int64_t calls_ = 0;
};

// Throws Fault::spec if a job of `steps` steps would run past the end of the schedule, as torch does.
void check_length(const spec::ScheduleSection& settings, Step steps, const batches::BatchSchedule& batches);

// The schedules of all parameter groups.
class GroupSchedules {
 public:
  // `batches` must outlive the schedules, and may change between stages.
  GroupSchedules(const spec::ScheduleSection& settings, const ParameterGroups& groups,
                 const batches::BatchSchedule& batches);

  // Returns the groups' learning rates for the update that follows `step`, with the factor of changes (BatchChange).
  std::vector<double> rates_at(Step step);
  // Returns the rates without the factor of changes.
  std::vector<double> scheduled_at(Step step);

 private:
  const spec::ScheduleSection settings_;
  const batches::BatchSchedule& batches_;
  std::vector<Schedule> schedules_;
};

// Returns the number of calls of the schedule after `step` updates: one call per update, or per whole epoch.
int64_t schedule_calls(const spec::ScheduleSection& settings, Step step, const batches::BatchSchedule& batches);

// A PlateauState is the state of ReduceLROnPlateau, whose learning rates fall when evaluations stop improving. The
// rates equal torch.optim.lr_scheduler's to the last bit. Unlike other schedules, "plateau" has a state, kept in
// checkpoints as these numbers; counts are integers.
struct PlateauState {
  double best = 0;      // best metric until now; infinite before the first evaluation
  double bad = 0;       // evaluations in a row without improvement
  double cooldown = 0;  // remaining evaluations to ignore
  bool operator==(const PlateauState&) const = default;
};

PlateauState plateau_start(const spec::ScheduleSection& settings);

// Does one scheduler.step(metric). `rates`: of all parameter groups. NaN is not an improvement.
void plateau_step(const spec::ScheduleSection& settings, double metric, PlateauState& state, std::span<double> rates);

}  // namespace estrain::optim

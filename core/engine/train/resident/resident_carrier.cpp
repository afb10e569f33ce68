#include "core/engine/train/resident/resident_carrier.h"

#include "core/base/clock.h"
#include "core/engine/train/evaluation/learning_rates.h"
#include "core/state/comm/stage_control.h"

namespace estrain::train {
namespace {

constexpr int64_t kStepsInSharedMemory = 16;  // from a step with a non-finite value on

}  // namespace

ResidentSaving::ResidentSaving(Workplace& place, const StageOrder& order)
    : place_(place),
      pulse_(place.memory.pulse(order.rank())),
      commit_(place, order),
      saved_(place.memory.meetings().saved(), place.memory, order),
      saved_ns_(monotonic_ns()) {}

void ResidentSaving::settle_or_save(Step step) {
  if (!decide(step)) commit_.settle(step);
}

// Saves at once where a process reads the state after this step, else now and then, beside the next step. The committed
// copy is never written, so of two steps in a row only one can be saved: a pause may be answered a step later. The step
// before a step with a due save is saved first, where its save frees the due step's copy. Returns true if all workers
// wait for the save, and then settles the step.
bool ResidentSaving::decide(Step step) {
  const ResidentState& state = *place_.resident;
  const bool now = place_.memory.gate().pause_asked() || must_be_saved(step);
  const bool clears = must_be_saved(step.next()) && !state.can_save(step.next());
  const bool due = std::chrono::nanoseconds(monotonic_ns() - saved_ns_) > time_between_saves(state.last_save());
  if (!(now || clears || due) || !state.can_save(step)) return false;
  place_.memory.save_request().ask(step, now);
  return now;
}

bool ResidentSaving::must_be_saved(Step step) const {
  const TrainingJob& job = place_.job;
  const bool may_be_last = step.value == job.timetable().total_steps() ||
                           (job.places().metrics.has_early_stop() && job.timetable().evaluates_after(step));
  return job.timetable().saves_after(step) || may_be_last;
}

// Returns the learning rate of the update from the step before `step` to `step`.
double ResidentSaving::lr_before(Step step) {
  return place_.job.places().metrics.has_plateau() ? place_.job.places().metrics.first_rate(place_.host_state(step))
                                                   : place_.job.schedules().rates_at(Step(step.value - 1))[0];
}

bool ResidentSaving::wants(Step step) const { return place_.memory.save_request().wants(step); }

bool ResidentSaving::save(Step step, const SavedPart& part) {
  comm::StateHold hold = place_.memory.hold();
  saved_ns_ = monotonic_ns();
  if (!hold.is_writable(step) &&
      !waiting(pulse_, comm::Activity::waiting_for_scribe, [&] { return hold.wait_writable(step); }))
    return false;
  if (!place_.resident->save(step, lr_before(step), part)) return false;
  if (!place_.memory.save_request().waits()) return true;
  place_.device.finish();
  return saved_.meet([&] { commit_.settle(step); });
}

ResidentCarrier::ResidentCarrier(Workplace& place, const StageOrder& order)
    : place_(place),
      job_(place.job),
      clips_(job_.spec().train.clip_grad_norm > 0),
      sums_(job_.places().model, job_.gradient_sum(), place.device, order.own()),
      optimizer_(place),
      commit_(place, order),
      finished_(place.memory.meetings().finished(), place.memory, order),
      saving_(place, order) {}

bool ResidentCarrier::carries_on() const { return !place_.memory.commit().looks_closely(); }

bool ResidentCarrier::begin_step(Step step) {
  step_ = step;
  sums_.forget();
  optimizer_.begin_step(step);
  return true;
}

void ResidentCarrier::backward(size_t arrival, const torch::Tensor& loss) {
  place_.hooks.backward_on_device(
      loss, [this, arrival](size_t parameter, const torch::Tensor& gradient) { fold(arrival, parameter, gradient); });
  sums_.flush();
}

void ResidentCarrier::take(size_t arrival, const std::vector<torch::Tensor>& gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) fold(arrival, i, gradients[i]);
  sums_.flush();
}

void ResidentCarrier::keep_buffers() {
  place_.model.put_buffers(*place_.resident, step_.next());
  optimizer_.digest_buffers();
}

bool ResidentCarrier::commit() {
  const Step next = step_.next();
  keep_schedule(job_, place_.memory, step_, place_.host_state(step_), place_.host_state(next));
  return finished_.meet([this] { commit_for_all(); }) && (!saving_.wants(next) || saving_.save(next, saved_part()));
}

void ResidentCarrier::commit_for_all() {
  comm::JobMemory& memory = place_.memory;
  if (!commit_.is_finite()) {
    memory.commit().look_closely_until(Step(step_.value + kStepsInSharedMemory));
    comm::StageControl(memory).repair();
    return;
  }
  commit_.complete(step_);
  if (!commit_.publish()) return;
  memory.commit().note_trained(step_.next());
  saving_.settle_or_save(step_.next());
}

}  // namespace estrain::train

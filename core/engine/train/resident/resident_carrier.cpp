#include "core/engine/train/resident/resident_carrier.h"

#include "core/engine/train/evaluation/learning_rates.h"
#include "core/state/comm/stage_control.h"

namespace estrain::train {
namespace {

constexpr int64_t kStepsInSharedMemory = 16;  // from a step with a non-finite value on

}  // namespace

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

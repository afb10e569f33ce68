#include "core/train/shared_update.h"

#include <cstring>

#include "core/train/waiting.h"
#include "kernels/digest.h"

namespace estrain::train {

SharedUpdate::SharedUpdate(Workplace& place, const StageOrder& order, comm::WorkerPulse& pulse, int spins)
    : place_(place),
      ests_(static_cast<size_t>(order.own().size())),
      gradients_(place.job, place.memory, order),
      updater_(place.job, place.memory, gradients_, order),
      pulse_(pulse),
      gathered_(place.memory.header().gathered, place.memory.header().abort, order.workers(), spins),
      summed_(place.memory.header().summed, place.memory.header().abort, order.workers(), spins) {}

void SharedUpdate::begin_step(int64_t step) {
  step_ = step;
  updater_.begin_step(step);
}

est::GradientSink SharedUpdate::sink(size_t arrival) {
  if (arrival + 1 == ests_ && updater_.in_hooks())
    return [this](size_t parameter, const float* gradient) { updater_.update_in_hook(parameter, gradient); };
  return [this, arrival](size_t parameter, const float* gradient) { gradients_.fold(arrival, parameter, gradient); };
}

void SharedUpdate::backward(size_t arrival, const torch::Tensor& loss) { place_.hooks.backward(loss, sink(arrival)); }

void SharedUpdate::take(size_t arrival, const std::vector<torch::Tensor>& gradients) {
  place_.hooks.hand_over(gradients, sink(arrival));
}

void SharedUpdate::keep_buffers() {
  std::byte* state = place_.memory.state(static_cast<int>((step_ + 1) & 1));
  place_.model.store_buffers(state, [this, state] { record_buffers(state); });
}

void SharedUpdate::record_buffers(std::byte* state) {
  const Job& job = place_.job;
  comm::RecordView record = comm::pending_record(place_.memory);
  for (size_t i = 0; i < job.buffers().size(); ++i) {
    const std::byte* values = job.buffers(state) + job.buffer_offset(i);
    record.digests[job.parameters().size() + i].store(kernels::digest(values, job.buffers()[i].nbytes()));
  }
}

int64_t SharedUpdate::complete() {
  place_.device.finish();
  return 0;
}

bool SharedUpdate::combine() {
  if (updater_.in_hooks()) return true;
  return meet(gathered_) && updater_.update_all([this] { return meet(summed_); });
}

bool SharedUpdate::meet(comm::Barrier& barrier) {
  return waiting(pulse_, comm::Activity::meeting, [&] { return barrier.meet(); });
}

void SharedUpdate::leave_out() {
  std::byte* old_state = place_.memory.state(static_cast<int>(step_ & 1));
  std::byte* new_state = place_.memory.state(static_cast<int>((step_ + 1) & 1));
  updater_.leave_out();
  std::memcpy(place_.job.buffers(new_state), place_.job.buffers(old_state), place_.job.buffers_bytes());
  record_buffers(new_state);
}

}  // namespace estrain::train

#include "core/train/resident_update.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/execution.h"
#include "kernels/portable/device_kernels.h"
#include "kernels/portable/reduction.h"

namespace estrain::train {
namespace {

constexpr size_t kDeepestStack = 64;

comm::SumOrder order_of(const Job& job) {
  return job.spec().job.determinism == spec::Determinism::d0 ? comm::SumOrder::left_to_right : comm::SumOrder::tree;
}

torch::Tensor new_floats(size_t count, const device::Device& device) {
  return at::empty({static_cast<int64_t>(count)}, at::TensorOptions(at::kFloat).device(device.torch_device()));
}

}  // namespace

bool ResidentUpdate::fits(const Job& job, const device::Device& device, const StageOrder& order) {
  return !device.torch_device().is_cpu() && order.workers() == 1 &&
         std::ranges::all_of(job.buffers(), [](const torch::Tensor& buffer) { return buffer.nbytes() % 4 == 0; });
}

ResidentUpdate::ResidentUpdate(Workplace& place, const StageOrder& order)
    : place_(place),
      job_(place.job),
      state_(*place.resident),
      fold_(comm::plan_fold(order_of(place.job), place.job.spec().job.ests, order.own())),
      factor_(1.0f / static_cast<float>(place.job.spec().job.ests)),
      clips_(place.job.spec().train.clip_grad_norm > 0) {
  const size_t parameters = job_.parameters().size();
  for (int slot = 0; slot < fold_.buffers; ++slot) {
    slots_.push_back(new_floats(job_.parameters_bytes() / sizeof(float), place.device));
    present_.emplace_back(parameters, uint8_t{0});
  }
  results_bytes_ = parameters * sizeof(kernels::UpdateDigest) + (job_.buffers().size() + 1) * sizeof(uint64_t);
  results_ = new_floats(results_bytes_ / sizeof(float), place.device);
  norms_ = new_floats(parameters + 1, place.device);
}

kernels::UpdateDigest* ResidentUpdate::digest_of_parameter(size_t i) const {
  return static_cast<kernels::UpdateDigest*>(results_.mutable_data_ptr()) + i;
}
unsigned long long* ResidentUpdate::digest_of_buffer(size_t i) const {
  return reinterpret_cast<unsigned long long*>(digest_of_parameter(job_.parameters().size())) + i;
}
float* ResidentUpdate::norm() const { return reinterpret_cast<float*>(digest_of_buffer(job_.buffers().size())); }

void ResidentUpdate::begin_step(int64_t step) {
  step_ = step;
  old_state_ = state_.copy(step);
  new_state_ = state_.copy(step + 1);
  rates_ = job_.learning_rates(step);
  total_norm_ = 0;
  results_.zero_();
}

void ResidentUpdate::backward(size_t arrival, const torch::Tensor& loss) {
  place_.hooks.backward_on_device(
      loss, [this, arrival](size_t parameter, const torch::Tensor& gradient) { fold(arrival, parameter, gradient); });
}

void ResidentUpdate::take(size_t arrival, const std::vector<torch::Tensor>& gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) fold(arrival, i, gradients[i]);
}

float* ResidentUpdate::values(int slot, size_t parameter) const {
  return slots_[static_cast<size_t>(slot)].mutable_data_ptr<float>() + job_.gradient_offset(parameter);
}

est::Partial ResidentUpdate::partial(int slot, size_t parameter) const {
  return {values(slot, parameter), present_[static_cast<size_t>(slot)][parameter] != 0};
}

void ResidentUpdate::fold(size_t arrival, size_t parameter, const torch::Tensor& gradient) {
  const kernels::DeviceQueue& queue = *place_.device.queue();
  const auto [depth, merges] = fold_.arrivals[arrival];
  const int target = depth - merges;
  std::array<est::Partial, kDeepestStack> left;
  for (int i = 0; i < merges; ++i) left[static_cast<size_t>(i)] = partial(target + i, parameter);
  const std::span<const est::Partial> partials(left.data(), static_cast<size_t>(merges));
  const float* from = gradient.defined() ? gradient.const_data_ptr<float>() : nullptr;
  const bool updates = !clips_ && arrival + 1 == fold_.arrivals.size();
  if (updates && merges == 0 && factor_ == 1.0f) return update(parameter, from, nullptr);
  float* const sum = values(target, parameter);
  const bool present = est::fold_on_device(partials, from, factor_, sum, job_.elements(parameter), queue);
  present_[static_cast<size_t>(target)][parameter] = present ? 1 : 0;
  if (updates) update(parameter, present ? sum : nullptr, nullptr);
}

void ResidentUpdate::keep_buffers() {
  if (job_.buffers().empty()) return;
  place_.model.put_buffers(state_.bytes(step_ + 1, job_.buffers_offset(), job_.buffers_bytes()));
  digest_buffers();
}

void ResidentUpdate::digest_buffers() {
  const kernels::DeviceQueue& queue = *place_.device.queue();
  for (size_t i = 0; i < job_.buffers().size(); ++i) {
    const auto words = static_cast<int64_t>(job_.buffers()[i].nbytes() / 4);
    if (words == 0) continue;
    queue.updates->digest(job_.buffers(new_state_) + job_.buffer_offset(i), words, 0, digest_of_buffer(i), queue);
  }
}

void ResidentUpdate::update(size_t i, const float* gradient, const float* factor) {
  std::byte* const old_host = state_.host(step_);
  const int64_t updates_before = *job_.updates(old_host, i);
  *job_.updates(state_.host(step_ + 1), i) = updates_before + (gradient != nullptr ? 1 : 0);
  if (gradient == nullptr) return keep(i);
  if (job_.elements(i) == 0) return;
  kernels::OptimizerPiece piece;
  piece.n = job_.elements(i);
  piece.gradient = gradient;
  piece.parameter = job_.parameter(old_state_, i);
  piece.new_parameter = job_.parameter(new_state_, i);
  for (size_t k = 0; k < job_.num_slots(i); ++k) {
    piece.slots[k] = job_.slot(old_state_, i, k);
    piece.new_slots[k] = job_.slot(new_state_, i, k);
  }
  const double lr = rates_[job_.optimizer().groups().group_of[i]];
  job_.optimizer().update_on_device(i, updates_before, lr, piece, factor, digest_of_parameter(i),
                                    *place_.device.queue());
}

// A parameter that no EST reached keeps its values, and its state.
void ResidentUpdate::keep(size_t i) {
  const kernels::DeviceQueue& queue = *place_.device.queue();
  const auto n = static_cast<int64_t>(job_.elements(i));
  if (n == 0) return;
  const auto copy = [&](float* to, const float* from, unsigned long long* digest) {
    queue.kernels->copy(to, from, n, {.device = &queue});
    queue.updates->digest(to, n, 0, digest, queue);
  };
  kernels::UpdateDigest* const digest = digest_of_parameter(i);
  copy(job_.parameter(new_state_, i), job_.parameter(old_state_, i), &digest->parameter);
  for (size_t k = 0; k < job_.num_slots(i); ++k) {
    copy(job_.slot(new_state_, i, k), job_.slot(old_state_, i, k), &digest->slots[k]);
  }
}

// torch.nn.utils.clip_grad_norm_, its norms summed in the portable order.
void ResidentUpdate::clip_and_update() {
  const kernels::DeviceQueue& queue = *place_.device.queue();
  const size_t parameters = job_.parameters().size();
  float* const norms = norms_.mutable_data_ptr<float>();
  float* const factor = norms + parameters;
  int64_t count = 0;
  for (size_t i = 0; i < parameters; ++i) {
    if (!partial(0, i).present) continue;
    const auto n = static_cast<int64_t>(job_.elements(i));
    kernels::portable::l2_norm(norms + count++, values(0, i), {1, n, 1}, {.device = &queue});
  }
  if (count > 0) kernels::portable::l2_norm(norm(), norms, {1, count, 1}, {.device = &queue});
  queue.updates->clip_factor(factor, norm(), static_cast<float>(job_.spec().train.clip_grad_norm), queue);
  for (size_t i = 0; i < parameters; ++i) update(i, partial(0, i).present ? values(0, i) : nullptr, factor);
}

void ResidentUpdate::complete() {
  if (clips_) clip_and_update();
  read_results();
  place_.device.finish();
}

void ResidentUpdate::read_results() {
  place_.device.read(results_, [this](const float* found) { record(reinterpret_cast<const std::byte*>(found)); });
}

void ResidentUpdate::record(const std::byte* results) {
  const size_t parameters = job_.parameters().size(), buffers = job_.buffers().size();
  comm::RecordView record = comm::pending_record(place_.memory);
  bool finite = true;
  for (size_t i = 0; i < parameters; ++i, results += sizeof(kernels::UpdateDigest)) {
    kernels::UpdateDigest found;
    std::memcpy(&found, results, sizeof found);
    finite &= found.not_finite == 0;
    record.digests[i].store(
        kernels::OptimizerDigest{found.parameter, {found.slots[0], found.slots[1]}, found.not_finite == 0}.combined());
  }
  for (size_t i = 0; i < buffers; ++i, results += sizeof(uint64_t)) {
    uint64_t digest = 0;
    std::memcpy(&digest, results, sizeof digest);
    record.digests[parameters + i].store(digest);
  }
  std::memcpy(&total_norm_, results, sizeof total_norm_);
  if (!std::isfinite(total_norm_)) {
    comm::mark_suspect(*record.head, comm::Nonfinite::Where::norm);
  } else if (!finite) {
    comm::mark_suspect(*record.head, comm::Nonfinite::Where::update);
  }
}

comm::Nonfinite ResidentUpdate::first_nonfinite_result() {
  comm::Nonfinite found;
  const auto look = [&](size_t parameter, const float* at) {
    const size_t offset = static_cast<size_t>(reinterpret_cast<const std::byte*>(at) - new_state_);
    const torch::Tensor here = state_.bytes(step_ + 1, offset, job_.elements(parameter) * sizeof(float)).cpu();
    const auto* values = static_cast<const float*>(here.const_data_ptr());
    const float* end = values + job_.elements(parameter);
    const float* first = std::find_if_not(values, end, [](float value) { return std::isfinite(value); });
    if (first == end) return false;
    found = {.where = comm::Nonfinite::Where::update, .value = *first, .tensor = static_cast<int64_t>(parameter)};
    return true;
  };
  for (size_t i = 0; i < job_.parameters().size(); ++i) {
    if (look(i, job_.parameter(new_state_, i))) return found;
    for (size_t k = 0; k < job_.num_slots(i); ++k) {
      if (look(i, job_.slot(new_state_, i, k))) return found;
    }
  }
  return found;
}

void ResidentUpdate::leave_out() {
  results_.zero_();
  for (size_t i = 0; i < job_.parameters().size(); ++i) {
    keep(i);
    *job_.updates(state_.host(step_ + 1), i) = *job_.updates(state_.host(step_), i);
  }
  if (!job_.buffers().empty()) {
    state_.bytes(step_ + 1, job_.buffers_offset(), job_.buffers_bytes())
        .copy_(state_.bytes(step_, job_.buffers_offset(), job_.buffers_bytes()));
    digest_buffers();
  }
  read_results();
  place_.device.finish();
}

}  // namespace estrain::train

#include "core/engine/train/workplace/bound_model.h"

#include <torch/types.h>

namespace estrain::train {
namespace {

using device::MirrorUse;

// Takes the strides of `like`. `like` is in C order; its strides may be channels_last's, too, if a dimension is 1.
torch::Tensor view_of(const c10::Storage& storage, const torch::Tensor& like, uint64_t byte_offset) {
  torch::Tensor view = torch::empty({0}, like.options().device(storage.device()).requires_grad(false));
  const int64_t element = static_cast<int64_t>(byte_offset / like.element_size());
  view.set_(storage, element, like.sizes(), like.strides());
  return view;
}

}  // namespace

BoundModel::BoundModel(const Network& network, const StatePlaces& places, comm::JobMemory& memory,
                       device::ComputeDevice& device)
    : network_(network),
      places_(places),
      memory_(memory),
      device_(device),
      parameters_(device.mirror(places.model.parameters_bytes(), MirrorUse::read_only)),
      buffers_(device.mirror(places.model.buffers_bytes(), MirrorUse::written)) {
  for (const Step step : {Step(0), Step(1)}) device.expect_copies(memory.state_of(step), places.bytes);
  bind(parameters_->storage());
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < places.model.num_buffers(); ++i) {
    torch::Tensor buffer = network.buffers()[i];
    buffer.set_data(view_of(buffers_->storage(), buffer, places.model.buffer_offset(i)));
  }
  buffer_bytes_ = torch::empty({0}, torch::dtype(torch::kByte).device(device.torch_device()));
  buffer_bytes_.set_(buffers_->storage(), 0, {static_cast<int64_t>(places.model.buffers_bytes())}, {1});
}

void BoundModel::bind(const c10::Storage& storage) {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < places_.model.num_parameters(); ++i) {
    torch::Tensor parameter = network_.parameters()[i];
    parameter.set_data(view_of(storage, parameter, places_.model.gradient_offset(i) * sizeof(float)));
  }
}

void BoundModel::show(const ResidentState* resident) {
  if (resident == nullptr && parameters_) return;
  if (device::CapturedPasses* captured = device_.captured_passes()) captured->forget();
  resident_ = resident;
  if (resident == nullptr) {
    parameters_ = device_.mirror(places_.model.parameters_bytes(), MirrorUse::read_only);
    bind(parameters_->storage());
    shown_ = {};
    return;
  }
  shown_ = c10::Storage(c10::Storage::use_byte_size_t(), places_.model.parameters_bytes(),
                        at::DataPtr(resident->copy(Step(0)), device_.torch_device()));
  bind(shown_);
  parameters_.reset();
}

void BoundModel::read_parameters_of(Step step) {
  if (resident_ == nullptr) return parameters_->load(memory_.state_of(step));
  shown_.unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr(resident_->copy(step), device_.torch_device()));
}

void BoundModel::read_averages_of(Step step) { parameters_->load(places_.averages.averages(memory_.state_of(step))); }

void BoundModel::load_buffers(Step step) {
  if (resident_ == nullptr) return buffers_->load(places_.model.buffers(memory_.state_of(step)));
  if (places_.model.buffers_bytes() > 0)
    buffer_bytes_.copy_(resident_->bytes(step, places_.model.buffers_offset(), places_.model.buffers_bytes()),
                        /*non_blocking=*/true);
}

void BoundModel::store_buffers(std::byte* state, std::function<void()> then) {
  buffers_->store(places_.model.buffers(state), std::move(then));
}

void BoundModel::put_buffers(const ResidentState& state, Step step) {
  if (places_.model.buffers_bytes() > 0)
    state.bytes(step, places_.model.buffers_offset(), places_.model.buffers_bytes())
        .copy_(buffer_bytes_, /*non_blocking=*/true);
}

}  // namespace estrain::train

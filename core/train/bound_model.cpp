#include "core/train/bound_model.h"

#include <torch/types.h>

namespace estrain::train {
namespace {

using device::MirrorUse;

torch::Tensor view_of(const c10::Storage& storage, const torch::Tensor& like, uint64_t byte_offset) {
  torch::Tensor view = torch::empty({0}, like.options().device(storage.device()).requires_grad(false));
  const int64_t element = static_cast<int64_t>(byte_offset / like.element_size());
  view.set_(storage, element, like.sizes(), c10::contiguous_strides(like.sizes()));
  return view;
}

}  // namespace

BoundModel::BoundModel(Job& job, comm::JobMemory& memory, device::Device& device)
    : job_(job),
      memory_(memory),
      parameters_(device.mirror(job.parameters_bytes(), MirrorUse::read_only)),
      buffers_(device.mirror(job.buffers_bytes(), MirrorUse::written)) {
  for (const int copy : {0, 1}) device.expect_copies(memory.state(copy), job.model_bytes());
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < job.parameters().size(); ++i) {
    torch::Tensor parameter = job.parameters()[i];
    parameter.set_data(view_of(parameters_->storage(), parameter, job.gradient_offset(i) * sizeof(float)));
  }
  for (size_t i = 0; i < job.buffers().size(); ++i) {
    torch::Tensor buffer = job.buffers()[i];
    buffer.set_data(view_of(buffers_->storage(), buffer, job.buffer_offset(i)));
  }
}

void BoundModel::read_parameters_of(int64_t step) { parameters_->load(memory_.state(static_cast<int>(step & 1))); }

void BoundModel::load_buffers(std::byte* state) { buffers_->load(job_.buffers(state)); }

void BoundModel::store_buffers(std::byte* state, std::function<void()> then) {
  buffers_->store(job_.buffers(state), std::move(then));
}

}  // namespace estrain::train

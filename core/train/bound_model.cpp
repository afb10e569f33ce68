#include "core/train/bound_model.h"

#include <ATen/ops/from_blob.h>
#include <torch/types.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace estrain::train {
namespace {

constexpr size_t kAlignment = 64;

torch::Tensor view_of(const c10::Storage& storage, const torch::Tensor& like, uint64_t byte_offset) {
  torch::Tensor view = torch::empty({0}, like.options().requires_grad(false));
  const int64_t element = static_cast<int64_t>(byte_offset / like.element_size());
  view.set_(storage, element, like.sizes(), c10::contiguous_strides(like.sizes()));
  return view;
}

}  // namespace

void BoundModel::Free::operator()(std::byte* memory) const { std::free(memory); }

BoundModel::BoundModel(Job& job, comm::JobMemory& memory) : job_(job), memory_(memory) {
  const int64_t state_bytes = static_cast<int64_t>(memory.header().state_bytes);
  storage_ = at::from_blob(memory.state(0), {state_bytes}, torch::kByte).storage();
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < job.parameters().size(); ++i) {
    torch::Tensor parameter = job.parameters()[i];
    parameter.set_data(view_of(storage_, parameter, job.gradient_offset(i) * sizeof(float)));
  }
  if (job.buffers().empty()) return;
  const size_t bytes = (job.buffers_bytes() + kAlignment - 1) / kAlignment * kAlignment;
  buffers_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes)));
  if (!buffers_) throw std::bad_alloc();
  const c10::Storage area = at::from_blob(buffers_.get(), {static_cast<int64_t>(bytes)}, torch::kByte).storage();
  for (size_t i = 0; i < job.buffers().size(); ++i) {
    torch::Tensor buffer = job.buffers()[i];
    buffer.set_data(view_of(area, buffer, job.buffer_offset(i)));
  }
}

void BoundModel::read_parameters_of(int64_t step) {
  c10::StorageImpl* storage = storage_.unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(at::DataPtr(memory_.state(static_cast<int>(step & 1)), c10::Device(c10::kCPU)));
}

void BoundModel::load_buffers(const std::byte* state) {
  if (buffers_) std::memcpy(buffers_.get(), job_.buffers(const_cast<std::byte*>(state)), job_.buffers_bytes());
}

void BoundModel::store_buffers(std::byte* state) const {
  if (buffers_) std::memcpy(job_.buffers(state), buffers_.get(), job_.buffers_bytes());
}

}  // namespace estrain::train

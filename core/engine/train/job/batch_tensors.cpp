#include "core/engine/train/job/batch_tensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <torch/types.h>

#include "core/engine/model/exported/scalar_type.h"

namespace estrain::train {
namespace {

torch::Tensor mixed_labels(const data::LoadedBatch& batch) {
  torch::Tensor probabilities = at::empty({batch.size(), batch.mix()->classes}, torch::kFloat);
  data::mix_labels(*batch.mix(), batch.size(), batch.targets(), probabilities.data_ptr<float>());
  return probabilities;
}

// Makes tensors for operators queued after ComputeDevice::await_uploads(). The tensors share `batch`.
model::MiniBatch upload(const std::shared_ptr<const data::LoadedBatch>& batch, device::ComputeDevice& device,
                        bool mixes_labels) {
  std::vector<int64_t> dims = batch->shape().dims();
  dims.insert(dims.begin(), batch->size());
  const bool tokens = batch->shape().kind == data::SampleShape::Kind::tokens;
  const auto send = [&](void* values, at::IntArrayRef sizes, at::ScalarType type) {
    return device.upload(at::from_blob(
        values, sizes, [batch](void*) {}, type));
  };
  model::MiniBatch tensors;
  if (batch->shape().kind == data::SampleShape::Kind::fields) {
    for (size_t i = 0; i < batch->shape().parts.size(); ++i) {
      const data::SampleShape::Field& part = batch->shape().parts[i];
      std::vector<int64_t> sizes = part.dims;
      sizes.insert(sizes.begin(), batch->size());
      tensors.fields.push_back(send(batch->field(i), sizes, model::scalar_type(part.type)));
    }
    return tensors;
  }
  tensors.input = tokens ? send(batch->tokens(), dims, torch::kLong) : send(batch->floats(), dims, torch::kFloat);
  tensors.target = mixes_labels && batch->mix()
                       ? device.upload(mixed_labels(*batch))
                       : send(batch->targets(), tokens ? at::IntArrayRef(dims) : batch->size(), torch::kLong);
  return tensors;
}

model::MiniBatch upload_now(const data::LoadedBatch& batch, device::ComputeDevice& device, bool mixes_labels) {
  const std::shared_ptr<const data::LoadedBatch> not_owned(std::shared_ptr<const data::LoadedBatch>(), &batch);
  model::MiniBatch tensors = upload(not_owned, device, mixes_labels);
  device.await_uploads();
  return tensors;
}

}  // namespace

model::MiniBatch as_tensors(const data::LoadedBatch& batch, device::ComputeDevice& device) {
  return upload_now(batch, device, true);
}

model::MiniBatch as_evaluated_tensors(const data::LoadedBatch& batch, device::ComputeDevice& device) {
  return upload_now(batch, device, false);
}

void BatchFeed::read() {
  if (!ahead_ && !read_) read_ = std::make_shared<const data::LoadedBatch>(loader_.next());
}

DeviceBatch BatchFeed::upload_next() {
  read();
  const std::shared_ptr<const data::LoadedBatch> batch = std::move(read_);
  return {batch->rank(), upload(batch, device_, true)};
}

DeviceBatch BatchFeed::next() {
  DeviceBatch batch = ahead_ ? std::move(*ahead_) : upload_next();
  ahead_.reset();
  device_.await_uploads();
  return batch;
}

bool BatchFeed::look_ahead() {
  if (!device_.torch_device().is_cpu() && !ahead_ && loader_.is_ready()) ahead_ = upload_next();
  return ahead_.has_value();
}

}  // namespace estrain::train

#include "core/train/batch_tensors.h"

#include <ATen/ops/from_blob.h>
#include <torch/types.h>

namespace estrain::train {

model::Batch as_tensors(const data::Batch& batch, device::Device& device) {
  std::vector<int64_t> dims = batch.shape().dims();
  dims.insert(dims.begin(), batch.size());
  const bool tokens = batch.shape().kind == data::SampleShape::Kind::tokens;
  void* values = tokens ? static_cast<void*>(batch.tokens()) : batch.floats();
  model::Batch tensors;
  tensors.input = device.upload(at::from_blob(values, dims, tokens ? torch::kLong : torch::kFloat));
  tensors.target =
      device.upload(at::from_blob(batch.targets(), tokens ? dims : std::vector<int64_t>{batch.size()}, torch::kLong));
  return tensors;
}

}  // namespace estrain::train

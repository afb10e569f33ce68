#pragma once
// Turns a loader's mini-batch into tensors on a device. Mixed images come with the probabilities of the classes,
// float32 [samples, classes], in the place of labels. The CPU needs no copy. The next mini-batch is copied to a GPU
// while the GPU works on the current mini-batch.

#include <memory>
#include <optional>

#include "core/data/reading/loader.h"
#include "core/engine/device/device.h"
#include "core/engine/model/model.h"

namespace estrain::train {

// Returns tensors for work queued after this call. The tensors may point into `batch`. So `batch` must outlive the
// tensors, every graph built on the tensors, and the next ComputeDevice::finish().
model::MiniBatch as_tensors(const data::LoadedBatch& batch, device::ComputeDevice& device);
// Returns the tensors of an evaluation: the target has the samples' labels, even if the images are mixed.
model::MiniBatch as_evaluated_tensors(const data::LoadedBatch& batch, device::ComputeDevice& device);

struct DeviceBatch {
  VirtualRank rank;
  model::MiniBatch tensors;
};

// A BatchFeed gives a loader's mini-batches in turn. A mini-batch lives as long as its tensors and its copy under way.
class BatchFeed {
 public:
  // `loader` and `device` must outlive the feed.
  BatchFeed(data::Loader& loader, device::ComputeDevice& device) : loader_(loader), device_(device) {}

  // Waits until the next mini-batch has been read.
  void read();
  // Loader::next(), as tensors.
  DeviceBatch next();
  // Starts to copy the next mini-batch if the device needs a copy and the loader has read it. True: next() won't wait.
  bool look_ahead();

 private:
  DeviceBatch upload_next();

  data::Loader& loader_;
  device::ComputeDevice& device_;
  std::shared_ptr<const data::LoadedBatch> read_;  // read, and not being copied yet
  std::optional<DeviceBatch> ahead_;
};

}  // namespace estrain::train

#pragma once
// A loader's mini-batch as tensors on a device. The CPU needs no copy. To a GPU, the next one is copied while it works
// on the current one.

#include <memory>
#include <optional>

#include "core/data/reading/loader.h"
#include "core/engine/device/device.h"
#include "core/engine/model/model.h"

namespace estrain::train {

// Tensors for work that is queued after this call. They may point into `batch`. So `batch` must outlive them, every
// graph built on them, and the next ComputeDevice::finish().
model::Batch as_tensors(const data::LoadedBatch& batch, device::ComputeDevice& device);

struct DeviceBatch {
  VirtualRank rank;
  model::Batch tensors;
};

// A loader's mini-batches, one after another. Each lives as long as its tensors and any copy under way.
class BatchFeed {
 public:
  // Both must outlive the feed.
  BatchFeed(data::Loader& loader, device::ComputeDevice& device) : loader_(loader), device_(device) {}

  // Waits until the next mini-batch has been read.
  void read();
  // Loader::next(), as tensors.
  DeviceBatch next();
  // Starts to copy the next one if the device needs a copy and it has been read. True if next() will not wait for it.
  bool look_ahead();

 private:
  DeviceBatch upload_next();

  data::Loader& loader_;
  device::ComputeDevice& device_;
  std::shared_ptr<const data::LoadedBatch> read_;  // and not being copied yet
  std::optional<DeviceBatch> ahead_;
};

}  // namespace estrain::train

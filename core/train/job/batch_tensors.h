#pragma once
// A loader's mini-batch as tensors of a device: on the CPU without a copy; on a GPU the next one is copied there while
// the one at hand is worked on.

#include <memory>
#include <optional>

#include "core/data/reading/loader.h"
#include "core/device/device.h"
#include "core/model/model.h"

namespace estrain::train {

// For what is asked for from now on. The tensors may point into `batch`, which must outlive them and whatever graph was
// built on them, and ComputeDevice::finish().
model::Batch as_tensors(const data::LoadedBatch& batch, device::ComputeDevice& device);

struct DeviceBatch {
  VirtualRank rank;
  model::Batch tensors;
};

// A loader's mini-batches one after another. Each lives as long as its tensors, and whatever still copies it.
class BatchFeed {
 public:
  // Both must outlive the feed.
  BatchFeed(data::Loader& loader, device::ComputeDevice& device) : loader_(loader), device_(device) {}

  // Waits until the one that next() gives has been read.
  void read();
  // Loader::next(), as tensors.
  DeviceBatch next();
  // Begins to copy the next one, if that takes a copy and it has been read. Returns whether next() has it at hand.
  bool look_ahead();

 private:
  DeviceBatch upload_next();

  data::Loader& loader_;
  device::ComputeDevice& device_;
  std::shared_ptr<const data::LoadedBatch> read_;  // and not on its way
  std::optional<DeviceBatch> ahead_;
};

}  // namespace estrain::train

#pragma once
// A loader's mini-batch as tensors of a device: on the CPU without a copy.

#include "core/data/batch.h"
#include "core/device/device.h"
#include "core/model/model.h"

namespace estrain::train {

// The tensors may point into `batch`, which must outlive them and whatever graph was built on them.
model::Batch as_tensors(const data::Batch& batch, device::Device& device);

}  // namespace estrain::train

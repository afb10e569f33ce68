#pragma once
// A loader's mini-batch as tensors, without a copy.

#include "core/data/batch.h"
#include "core/model/model.h"

namespace estrain::train {

// The tensors point into `batch`, which must outlive them and whatever graph was built on them.
model::Batch as_tensors(const data::Batch& batch);

}  // namespace estrain::train

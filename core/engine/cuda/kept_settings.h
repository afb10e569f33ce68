#pragma once
// The settings of a GPU's process that a user's code could leave changed: LibTorch's flags that choose algorithms or
// types of products, convolutions and attention; the calling thread's current device and stream.

#include <memory>

#include "core/engine/device/device.h"

namespace estrain::cuda {

std::unique_ptr<device::KeptSettings> keep_settings();

}  // namespace estrain::cuda

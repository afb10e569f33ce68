#pragma once
// libestrain_cuda.so holds all code that needs CUDA. Only processes with a GPU as device load this library, so the same
// program runs on machines without a driver.

#include <memory>
#include <string>

#include "core/engine/device/device.h"

namespace estrain::device {

// Opens GPU `index`, in CUDA's numbering. Throws Fault::device if the program was built without CUDA, the driver is
// missing or does not start, a CUDA library is missing, no GPU has the index, or this LibTorch has no code for the
// GPU.
std::unique_ptr<ComputeDevice> open_cuda_device(int index, const std::string& libraries, const DeviceOptions& options);

// The type of libestrain_cuda.so's function "estrain_open_cuda_device". Throws Error.
using OpenCudaDevice = ComputeDevice* (*)(int index, const DeviceOptions& options);

}  // namespace estrain::device

#pragma once
// libestrain_cuda.so, which holds all that needs CUDA: loaded by processes whose device is a GPU, and by no other, so
// that the same program runs on machines without a driver.

#include <memory>
#include <string>

#include "core/device/device.h"

namespace estrain::device {

// GPU number `index`, counted as CUDA counts them. Throws Fault::device: the program was built without CUDA; there is
// no driver, or it does not start; a library of CUDA is missing; there is no such GPU, or this LibTorch has no code for
// it.
std::unique_ptr<Device> open_cuda_device(int index, const std::string& libraries, const DeviceOptions& options);

// What libestrain_cuda.so exports under the name "estrain_open_cuda_device". Throws Error.
using OpenCudaDevice = Device* (*)(int index, const DeviceOptions& options);

}  // namespace estrain::device

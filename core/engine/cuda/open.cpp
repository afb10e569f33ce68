// Defines the function that the worker library looks up here (core/engine/device/cuda_library.h).

#include <c10/util/Exception.h>

#include "core/base/error.h"
#include "core/engine/cuda/cuda_device.h"

extern "C" estrain::device::ComputeDevice* estrain_open_cuda_device(int index,
                                                                    const estrain::device::DeviceOptions& options) {
  using namespace estrain;
  try {
    return new cuda::CudaDevice(static_cast<c10::DeviceIndex>(index), options);
  } catch (const c10::Error& error) {
    throw Error::make(Fault::device, "cuda:{} cannot be initialised: {}", index, error.what_without_backtrace())
        .advise("check nvidia-smi");
  }
}

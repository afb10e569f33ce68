#include "core/engine/device/device.h"

#include <ATen/ops/empty.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "core/base/error.h"
#include "core/engine/device/cpu.h"

namespace estrain::device {
namespace {

constexpr int kNoDevice = 100;      // CUDA_ERROR_NO_DEVICE
constexpr int kDriverTooOld = 803;  // CUDA_ERROR_SYSTEM_DRIVER_MISMATCH

// Checks that the driver exists and starts, before the process loads half a gigabyte of libraries for the driver.
void require_driver() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) {
    throw Error::make(Fault::device, "no NVIDIA driver: {}", ::dlerror())
        .advise("install the driver, or make it visible in the container (docker run --gpus all); cpu needs none")
        .caused_by("device_missing");
  }
  const auto start = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
  const int failure = start == nullptr ? -1 : start(0);
  if (failure == 0) return;
  if (failure == kNoDevice) {
    throw Error(Fault::device, "the NVIDIA driver finds no GPU (no CUDA-capable device is detected)")
        .advise("check nvidia-smi and CUDA_VISIBLE_DEVICES")
        .caused_by("device_missing");
  }
  throw Error::make(Fault::device, "the NVIDIA driver does not start: cuInit returned {}{}", failure,
                    failure == kDriverTooOld ? " (its parts are of different versions)" : "")
      .advise("check nvidia-smi; after a driver update the machine may need a restart");
}

std::unique_ptr<ComputeDevice> open_cuda_device(int index, const std::string& libraries, const DeviceOptions& options) {
  const std::string path = libraries + "/libestrain_cuda.so";
  if (!std::filesystem::exists(path)) {
    throw Error::make(Fault::device, "cuda:{}: this estrain was built without CUDA ({} is missing)", index, path)
        .advise("build it on a machine with a CUDA toolkit (nvcc): scripts/build --target estrain_cuda")
        .caused_by("device_missing");
  }
  require_driver();
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw Error::make(Fault::device, "cuda:{}: a library of CUDA cannot be loaded: {}", index, ::dlerror())
        .advise(
            "the CUDA libraries that LibTorch needs come with Python's torch package; add their folders "
            "(site-packages/nvidia/*/lib) to LD_LIBRARY_PATH");
  }
  const auto open = reinterpret_cast<OpenCudaDevice>(::dlsym(library, "estrain_open_cuda_device"));
  if (open == nullptr) throw Error::make(Fault::bug, "{} is not estrain's CUDA library", path);
  return std::unique_ptr<ComputeDevice>(open(index, options));
}

}  // namespace

FinishAtEnd::~FinishAtEnd() {
  try {
    device_.finish();
  } catch (...) {  // the current exception, or the fault behind that exception, is the one to report
  }
}

at::Tensor ComputeDevice::mapped_memory(size_t bytes) {
  return at::empty({static_cast<int64_t>(bytes)}, at::TensorOptions(at::kByte));
}

ExchangeId ComputeDevice::new_exchange() { throw Error::make(Fault::bug, "{} does not exchange", describe()); }

std::unique_ptr<DeviceExchange> ComputeDevice::open_exchange(const ExchangeId&, const ExchangeParty&) {
  throw Error::make(Fault::bug, "{} does not exchange", describe());
}

std::unique_ptr<ComputeDevice> open_device(const std::string& name, const std::string& libraries,
                                           const DeviceOptions& options) {
  if (name == "cpu" || name.starts_with("cpu:")) return std::make_unique<CpuDevice>();
  int index = -1;
  if (name.starts_with("cuda:")) {
    const char* end = name.data() + name.size();
    if (std::from_chars(name.data() + 5, end, index).ptr != end) index = -1;
  }
  if (index < 0) throw Error::make(Fault::bug, "no device is called \"{}\"", name);
  return open_cuda_device(index, libraries, options);
}

}  // namespace estrain::device

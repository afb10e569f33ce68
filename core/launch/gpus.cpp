#include "core/launch/gpus.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/base/child_process.h"
#include "core/base/error.h"

namespace estrain::launch {
namespace {

bool is_there(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

}  // namespace

GpuSupport GpuSupport::here() {
  const auto folder = std::filesystem::path(own_executable()).parent_path();
  const auto signs = {"/dev/nvidiactl", "/dev/nvidia0", "/proc/driver/nvidia/version", "/dev/dxg"};
  return {std::ranges::any_of(signs, is_there), is_there(folder / "libestrain_cuda.so")};
}

void require_gpu_support(const GpuSupport& support, const std::string& device) {
  if (!support.library) {
    throw Error::make(Fault::device, "device \"{}\": this estrain was built without CUDA", device)
        .advise("build it where there is a CUDA toolkit (nvcc), with scripts/build; or use cpu");
  }
  if (!support.driver) {
    throw Error::make(Fault::device, "device \"{}\": no NVIDIA driver runs on this machine", device)
        .advise("install the driver, or make GPUs visible inside of the container (docker run --gpus all); or use cpu");
  }
}

}  // namespace estrain::launch

#include "core/job/resources/nvml.h"

#include <dlfcn.h>

namespace estrain::resources {
namespace {

// As in nvml.h of the CUDA toolkit.
using NvmlDevice = void*;
struct NvmlMemory {
  unsigned long long total = 0, free = 0, used = 0;
};
constexpr int kDone = 0;

// The library at work. It stays loaded, as the driver's libraries do.
class Nvml {
 public:
  Nvml() {
    library_ = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) return;
    const auto start = function<int()>("nvmlInit_v2");
    stop_ = function<int()>("nvmlShutdown");
    find_ = function<int(const char*, NvmlDevice*)>("nvmlDeviceGetHandleByPciBusId_v2");
    read_ = function<int(NvmlDevice, NvmlMemory*)>("nvmlDeviceGetMemoryInfo");
    works_ = start != nullptr && stop_ != nullptr && find_ != nullptr && read_ != nullptr && start() == kDone;
  }
  ~Nvml() {
    if (works_) stop_();
  }
  Nvml(const Nvml&) = delete;

  // 0: not known.
  uint64_t memory_at(const std::string& place) const {
    NvmlDevice device = nullptr;
    NvmlMemory memory;
    const bool is_told = works_ && find_(place.c_str(), &device) == kDone && read_(device, &memory) == kDone;
    return is_told ? memory.total : 0;
  }

 private:
  template <typename Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }

  void* library_ = nullptr;
  bool works_ = false;
  int (*stop_)() = nullptr;
  int (*find_)(const char*, NvmlDevice*) = nullptr;
  int (*read_)(NvmlDevice, NvmlMemory*) = nullptr;
};

}  // namespace

std::vector<uint64_t> memory_of_gpus_at(const std::vector<std::string>& places) {
  if (places.empty()) return {};
  const Nvml nvml;
  std::vector<uint64_t> bytes;
  for (const std::string& place : places) {
    bytes.push_back(nvml.memory_at(place));
    if (bytes.back() == 0) return {};
  }
  return bytes;
}

}  // namespace estrain::resources

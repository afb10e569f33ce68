#include "core/engine/device/device.h"

#include <charconv>

#include "core/base/error.h"
#include "core/engine/device/cpu_device.h"
#include "core/engine/device/cuda_library.h"

namespace estrain::device {

FinishAtEnd::~FinishAtEnd() {
  try {
    device_.finish();
  } catch (...) {  // the current exception, or the fault behind that exception, is the one to report
  }
}

ExchangeId ComputeDevice::new_exchange() { throw Error::make(Fault::bug, "{} does not exchange", describe()); }

std::unique_ptr<Exchange> ComputeDevice::open_exchange(const ExchangeId&, const ExchangeParty&) {
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

#include "core/pool/daemon/served_pool.h"

#include <chrono>

#include "core/job/placement/assignment.h"
#include "core/run/launch/preflight/devices.h"

namespace estrain::pool {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::vector<std::string> names_in(const std::string& devices) {
  if (devices.empty() || devices == kNoDevices) return {};
  return placement::texts_of(placement::devices_of(launch::parse_devices(devices)));
}

}  // namespace estrain::pool

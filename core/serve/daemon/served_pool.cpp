#include "core/serve/daemon/served_pool.h"

#include <chrono>

#include "core/launch/preflight/devices.h"
#include "core/place/assignment.h"

namespace estrain::serve {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::vector<std::string> names_in(const std::string& devices) {
  if (devices.empty() || devices == kNoDevices) return {};
  return place::texts_of(place::devices_of(launch::parse_devices(devices)));
}

}  // namespace estrain::serve

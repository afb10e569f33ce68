#include "core/launch/tried_shares.h"

#include <fmt/format.h>

namespace estrain::launch {

std::string shares_key(const std::vector<conduct::Device>& devices, const std::vector<int64_t>& workers) {
  std::string key;
  for (size_t i = 0; i < devices.size(); ++i) key += fmt::format("{}={} ", workers[i], devices[i].ests.value_or(0));
  return key;
}

std::string shares_key(const conduct::State& job) {
  std::vector<int64_t> workers;
  for (const conduct::Member& member : job.workers) workers.push_back(member.id.value);
  return shares_key(devices_in_force(job), workers);
}

}  // namespace estrain::launch

#include "core/conduct/device.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/plan/assignment.h"

namespace estrain::conduct {

std::vector<std::string> kinds_of(const std::vector<Device>& devices) {
  std::vector<std::string> kinds;
  for (const Device& device : devices) kinds.push_back(device.kind);
  return kinds;
}

std::string format_devices(const std::vector<Device>& devices) {
  return fmt::format("{}", fmt::join(kinds_of(devices), ","));
}

std::string list_of(const std::vector<std::string>& kinds) {
  return kinds.empty() ? "none" : fmt::format("{}", fmt::join(kinds, ","));
}

std::vector<EstRange> place_ests(const std::vector<Device>& devices, int64_t ests) {
  const auto named = std::ranges::count_if(devices, [](const Device& device) { return device.ests.has_value(); });
  if (named == 0) return plan::even_assignment(ests, static_cast<int64_t>(devices.size()));
  if (named != static_cast<int64_t>(devices.size())) {
    throw Error(Fault::usage, "device list: some devices say how many ESTs they host and some do not")
        .advise("write =K behind all of them or none");
  }
  std::vector<EstRange> ranges;
  int64_t next = 0;
  for (const Device& device : devices) {
    ranges.push_back({VirtualRank(next), VirtualRank(next + *device.ests)});
    next += *device.ests;
  }
  if (next != ests) {
    throw Error::make(Fault::infeasible, "the device list hosts {} ESTs, the job has {}", next, ests)
        .advise("make the numbers behind = add up to job.ests");
  }
  return ranges;
}

std::optional<std::vector<std::string>> without(std::vector<std::string> all, const std::vector<std::string>& some) {
  for (const std::string& kind : some) {
    const auto at = std::ranges::find(all, kind);
    if (at == all.end()) return std::nullopt;
    all.erase(at);
  }
  return all;
}

std::vector<std::string> common(const std::vector<std::string>& one, std::vector<std::string> other) {
  std::vector<std::string> both;
  for (const std::string& kind : one) {
    const auto at = std::ranges::find(other, kind);
    if (at == other.end()) continue;
    both.push_back(kind);
    other.erase(at);
  }
  return both;
}

std::vector<std::string> beyond(const std::vector<std::string>& all, std::vector<std::string> some) {
  std::vector<std::string> more;
  for (const std::string& kind : all) {
    const auto at = std::ranges::find(some, kind);
    if (at == some.end()) {
      more.push_back(kind);
    } else {
      some.erase(at);
    }
  }
  return more;
}

}  // namespace estrain::conduct

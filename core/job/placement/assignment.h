#pragma once
// The device that hosts each EST. Every device hosts all blocks of the network.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/job/placement/device.h"

namespace estrain::placement {

// A worker's part.
struct Share {
  Device device = {};
  std::optional<int64_t> ests = std::nullopt;  // number of ESTs, if the list says so ("cpu=3")

  bool operator==(const Share&) const = default;
};

// In worker order: the first share's ESTs come first.
using Assignment = std::vector<Share>;

Devices devices_of(const Assignment& assignment);
std::string format_devices(const Assignment& assignment);  // "cpu,cuda:1"
// Returns the same devices, without numbers of ESTs: place_ests() then divides evenly.
Assignment evenly(const Devices& devices);

// Returns ranges of nearly equal size: the first `ests mod workers` workers host an EST more than the rest. Throws
// Fault::infeasible unless 1 <= workers <= ests.
std::vector<EstRange> even_ranges(int64_t ests, int64_t workers);
// Returns the range of each share: as the list says, or even. Throws Fault::usage or Fault::infeasible if ESTs cannot
// be placed in this way.
std::vector<EstRange> place_ests(const Assignment& assignment, int64_t ests);

}  // namespace estrain::placement

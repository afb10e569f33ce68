#include "core/job/placement/assignment.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/error.h"

namespace estrain::placement {

Devices devices_of(const Assignment& assignment) {
  Devices devices;
  for (const Share& share : assignment) devices.push_back(share.device);
  return devices;
}

std::string format_devices(const Assignment& assignment) {
  return fmt::format("{}", fmt::join(texts_of(devices_of(assignment)), ","));
}

Assignment evenly(const Devices& devices) {
  Assignment assignment;
  for (const Device& device : devices) assignment.push_back({device});
  return assignment;
}

std::vector<EstRange> even_ranges(int64_t ests, int64_t workers) {
  if (workers < 1 || workers > ests) {
    throw Error::make(Fault::infeasible, "{} workers for {} ESTs: every worker must host at least one", workers, ests)
        .advise(fmt::format("give between 1 and {} devices", ests));
  }
  std::vector<EstRange> ranges;
  int64_t next = 0;
  for (int64_t worker = 0; worker < workers; ++worker) {
    const int64_t size = ests / workers + (worker < ests % workers ? 1 : 0);
    ranges.push_back({VirtualRank(next), VirtualRank(next + size)});
    next += size;
  }
  return ranges;
}

std::vector<EstRange> place_ests(const Assignment& assignment, int64_t ests) {
  const auto named = std::ranges::count_if(assignment, [](const Share& share) { return share.ests.has_value(); });
  if (named == 0) return even_ranges(ests, std::ssize(assignment));
  if (named != std::ssize(assignment)) {
    throw Error(Fault::usage, "device list: some devices say how many ESTs they host and some do not")
        .advise("write =K behind all of them or none");
  }
  std::vector<EstRange> ranges;
  int64_t next = 0;
  for (const Share& share : assignment) {
    ranges.push_back({VirtualRank(next), VirtualRank(next + *share.ests)});
    next += *share.ests;
  }
  if (next != ests) {
    throw Error::make(Fault::infeasible, "the device list hosts {} ESTs, the job has {}", next, ests)
        .advise("make the numbers behind = add up to job.ests");
  }
  return ranges;
}

}  // namespace estrain::placement

#pragma once
// Plans for a user to compare: the best plan for the available devices, the best plans for fewer or different devices,
// and the given plan.

#include <optional>
#include <string>
#include <vector>

#include "core/planning/plan/plan.h"

namespace estrain::profile {

struct Alternative {
  plan::Plan plan;
  std::string devices;  // in the syntax of `--devices`: "cpu:avx2=5,cpu:sse=3"
  bool best = false;    // the best plan for all available devices
  bool given = false;
};

// Sorted by step time, without duplicates, at most `most`; always with the best and the given plan. `given`: the shares
// as the user listed them, if possible. Throws as plan::best_plan.
std::vector<Alternative> alternatives(const plan::PlannedJob& job, const std::vector<plan::DeviceGroup>& groups,
                                      const std::optional<std::vector<plan::WorkerShare>>& given, size_t most);

// "cpu:avx2=5,cpu:sse=3*2": the devices of a plan with their ESTs; equal neighbours are merged.
std::string device_list(const std::vector<plan::WorkerShare>& workers, const std::vector<plan::DeviceGroup>& groups);

}  // namespace estrain::profile

#pragma once
// The plans that a user may want to compare: the best one for the devices at hand, the best for fewer or other ones,
// and the one that was given.

#include <optional>
#include <string>
#include <vector>

#include "core/plan/plan.h"

namespace estrain::profile {

struct Alternative {
  plan::Plan plan;
  std::string devices;  // as `--devices` takes it: "cpu:avx2=5,cpu:sse=3"
  bool best = false;    // for all devices at hand
  bool given = false;
};

// By step time, each once, at most `most`; the best and the given one are always among them. `given`: shares of the
// groups as the user listed them, if the job can have them. Throws as plan::best_plan.
std::vector<Alternative> alternatives(const plan::Job& job, const std::vector<plan::DeviceGroup>& groups,
                                      const std::optional<std::vector<plan::Share>>& given, size_t most);

// "cpu:avx2=5,cpu:sse=3*2": the devices of a plan with their ESTs, equal neighbours together.
std::string device_list(const std::vector<plan::Share>& workers, const std::vector<plan::DeviceGroup>& groups);

}  // namespace estrain::profile

#pragma once
// A run as its pool wants to know it: selected fields of its launcher's status.

#include <optional>
#include <string>
#include <vector>

#include "core/base/json/json.h"

namespace estrain::serve {

// A run's own answer to how far it is; nothing where no launcher on this host gives one in time.
//   {"state", "step", "total_steps", "held": […], "batch", "lr_factor", "epoch", "gradient_noise": {"scale"},
//   "step_seconds",
//    "devices_at_work"}
std::optional<Json> look_at_run(const std::string& run, int milliseconds);

inline constexpr int kLookPatienceMs = 200;

}  // namespace estrain::serve

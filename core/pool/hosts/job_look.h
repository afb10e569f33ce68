#pragma once
// The facts about a run for the pool: selected fields of the launcher's status.

#include <optional>
#include <string>

#include "core/base/json/json.h"

namespace estrain::pool {

// Asks a run for its progress. Returns nothing if no launcher on this host answers in time.
//   {"state", "step", "total_steps", "held": […], "devices_at_work", "step_seconds",
//    "batch", "lr_factor", "epoch", "gradient_noise": {"scale"}}
std::optional<Json> look_at_run(const std::string& run, int milliseconds);

inline constexpr int kLookPatienceMs = 200;

}  // namespace estrain::pool

#pragma once
// What a pool of real jobs went through (`estrain pool trace`), to try other policies on it, or the same one again.
//
// Columns: name, submit_s, ests, devices (the gang), most, steps, start_s (what starting it costs), step_s_1, step_s_2,
// … (seconds of a step on so many devices). All devices are of one type, on one host. As in a pool, every policy
// decides whenever a job comes or ends, and when a round is over. A change of devices costs the charge (published:
// nothing).

#include <memory>

#include "core/simulate/world.h"

namespace estrain::simulate {

inline constexpr double kRoundOfPools = 10;  // s

bool is_pool_trace(const std::string& path);
std::unique_ptr<World> open_pool_world(const WorldFiles& files);

}  // namespace estrain::simulate

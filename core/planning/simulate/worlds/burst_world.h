#pragma once
// Foreground jobs with burst-parallel plans, and background jobs on one device each (DeepPool, MLSys'22). The folder
// has layer_profiles.csv (tables/layer_table.h).
//
// Columns: job, submit_s, kind ("foreground" or "background"), model (NAME or NAME/SET), batch (samples of an
// iteration), iterations; optional: devices (of a foreground job: the most that it bursts over; default: all), limit
// (its amplification; 0: data parallel on all its devices; default 2), slowed (part by which it is slower while a
// background job shares its devices; default 0.18, "less than 18 %", section 6.1).
//
// A foreground job's iteration takes as long as its best plan (core/planning/plan/burst.h) on the largest power of two
// of its devices. Its layers use the first of its devices, so each device has a gap: the part of an iteration in which
// it is idle. Background jobs of policies that share devices (deeppool) have those outside the foreground first, then
// those with the largest gaps, in the order of submission, and progress in the gaps alone, at the speed that they have
// on a device of their own. A change of devices costs the charge (published: nothing).

#include <memory>

#include "core/planning/simulate/world.h"

namespace estrain::simulate {

bool is_burst_trace(const std::string& path);
std::unique_ptr<World> open_burst_world(const WorldFiles& files);

}  // namespace estrain::simulate

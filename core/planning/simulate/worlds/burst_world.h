#pragma once
// Foreground jobs with burst-parallel plans, and background jobs on one device each (DeepPool, MLSys'22). The folder
// has layer_profiles.csv (tables/layer_table.h).
//
// Columns: job, submit_s, kind ("foreground" or "background"), model (NAME or NAME/SET), batch (samples of an
// iteration), iterations; optional: devices (of a foreground job: the most devices to burst over; default: all), limit
// (the job's amplification; 0: data parallel on all its devices; default 2), slowed (part by which the job is slower
// while a background job shares its devices; default 0.18, "less than 18 %", section 6.1).
//
// A foreground job's iteration takes as long as its best plan (core/planning/plan/burst.h) on the largest power of two
// of its devices. Layers use the first of these devices, so each device has a gap: the idle part of an iteration.
// Background jobs of policies that share devices (deeppool) get devices outside the foreground first, then the devices
// with the largest gaps, in the order of submission. In a gap, a background job progresses in the gap alone, at its
// speed on a device of its own. A change of devices costs the charge (published: nothing).

#include <memory>

#include "core/planning/simulate/world.h"

namespace estrain::simulate {

bool is_burst_trace(const std::string& path);
std::unique_ptr<World> open_burst_world(const WorldFiles& files);

}  // namespace estrain::simulate

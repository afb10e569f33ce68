#pragma once
// The world of Pollux's simulator: 16 hosts with 4 T4 each, six applications with measured speeds, rounds of 60 s. The
// published charge for every change of devices, including the first, is 30 s.
//
// The folder holds pollux_placements.csv, pollux_interpolated.csv and pollux_validation.csv (each may end in ".gz"). A
// trace has the columns name, time_s, application, num_replicas, batch_size, and optionally load and workload: then
// each pair is a workload, named LOAD/WORKLOAD.

#include <memory>
#include <string>

#include "core/planning/simulate/world.h"

namespace estrain::simulate {

std::unique_ptr<World> open_pollux_world(const std::string& folder, const std::string& trace);

}  // namespace estrain::simulate

#pragma once
// Traces that say how long jobs ran on the devices they asked for, and no more: Philly, ITP and their like.
//
// Columns: submit_s, duration_s, num_gpus (or num_gpu); job or name; vc (a job's owner); cluster (one workload for
// each); deadline_s. A job has an EST for each device that it asked for. On fewer it is as much slower as the device
// with most ESTs, on more no faster. A change of devices costs nothing unless --charge says so: these traces tell of no
// cost.
//
// Policies that act on events do so; others decide every 60 s.
//
// The cluster: of philly_machines.csv in the folder (quotas: philly_vc_nodes.csv); for the clusters 1 to 10 of
// elasticflow_throughputs.csv's folder as their authors had them; else as typed.

#include <memory>
#include <string>
#include <string_view>

#include "core/simulate/world.h"

namespace estrain::simulate {

// "4x8:v100,8x2:p100": hosts x devices, and the type where there are several. Throws Fault::usage.
pool::Cluster parse_cluster(std::string_view text);

// Of the ITP clusters 1 to 10 as ElasticFlow's authors had them: hosts with 8 devices each; 0 for others.
int64_t hosts_of_itp_cluster(int64_t number);

std::unique_ptr<World> open_durations_world(const WorldFiles& files);

}  // namespace estrain::simulate

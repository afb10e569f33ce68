#pragma once
// Traces with only the jobs' durations on their requested devices: Philly, ITP and the like.
//
// Columns: submit_s, duration_s, num_gpus (or num_gpu); job or name; vc (a job's owner); cluster (a workload for
// each); deadline_s. A job has an EST for each requested device. On fewer devices, the device with the most ESTs
// determines the speed; on more devices the job is no faster. A change of devices costs nothing unless --charge sets a
// cost, since these traces have no cost.
//
// Policies able to act on events act on events; the rest decides every 60 s.
//
// The cluster comes from philly_machines.csv in the folder (quotas: philly_vc_nodes.csv); in a folder with
// elasticflow_throughputs.csv, clusters 1 to 10 are the authors'; otherwise the command line gives the cluster.

#include <memory>
#include <string>
#include <string_view>

#include "core/planning/simulate/world.h"

namespace estrain::simulate {

// "4x8:v100,8x2:p100": hosts x devices, and the type if there are several. Throws Fault::usage.
scheduling::Cluster parse_cluster(std::string_view text);

// Returns the number of hosts, of 8 devices each, of the ITP clusters 1 to 10 of ElasticFlow's authors; otherwise 0.
int64_t hosts_of_itp_cluster(int64_t number);

std::unique_ptr<World> open_durations_world(const WorldFiles& files);

}  // namespace estrain::simulate

#pragma once
// Traces with only the jobs' durations on their requested devices: Philly, ITP and the like.
//
// Columns: submit_s, duration_s, num_gpus (or num_gpu); job or name; vc (a job's owner); cluster (one workload for
// each); deadline_s. A job has an EST for each requested device. On fewer devices, the one with the most ESTs
// determines its speed; on more it is no faster. A change of devices costs nothing unless --charge sets a cost, since
// these traces have none.
//
// Policies that can act on events do so; others decide every 60 s.
//
// The cluster comes from philly_machines.csv in the folder (quotas: philly_vc_nodes.csv); in a folder with
// elasticflow_throughputs.csv, clusters 1 to 10 are those of its authors; otherwise it is given on the command line.

#include <memory>
#include <string>
#include <string_view>

#include "core/planning/simulate/world.h"

namespace estrain::simulate {

// "4x8:v100,8x2:p100": hosts x devices, and the type if there are several. Throws Fault::usage.
scheduling::Cluster parse_cluster(std::string_view text);

// The number of hosts, of 8 devices each, of the ITP clusters 1 to 10 as ElasticFlow's authors had them; 0 for others.
int64_t hosts_of_itp_cluster(int64_t number);

std::unique_ptr<World> open_durations_world(const WorldFiles& files);

}  // namespace estrain::simulate

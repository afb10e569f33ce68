#pragma once
// The worlds of the traces, a function for each. world.h defines the interface.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/planning/simulate/world.h"

namespace estrain::simulate {

// Traces with only the jobs' durations on their requested devices: Philly, ITP and the like.
//
// Columns: tables/job_trace.h; each cluster of the column cluster is a workload. A job has an EST for each requested
// device. On fewer devices, the device with the most ESTs determines the speed; on more devices the job is no faster. A
// change of devices costs nothing unless --charge sets a cost, since these traces have no cost.
//
// With placement_slowdown.csv in the folder (model, gpus, nodes, rel_speed), a job on more hosts than its requested
// devices need is slower; the trace may have the column model. A trace's duration is that on the fewest hosts.
//
// Policies able to act on events act on events; the rest decides every 60 s.
//
// The cluster comes from philly_machines.csv in the folder (quotas: philly_vc_nodes.csv); in a folder with
// elasticflow_throughputs.csv, clusters 1 to 10 are the authors'; otherwise the command line gives the cluster.
std::unique_ptr<World> open_durations_world(const WorldFiles& files);

// "4x8:v100,8x2:p100": hosts x devices, and the type if there are several. Throws Fault::usage.
scheduling::Cluster parse_cluster(std::string_view text);

// Returns the number of hosts, of 8 devices each, of the ITP clusters 1 to 10 of ElasticFlow's authors; otherwise 0.
int64_t hosts_of_itp_cluster(int64_t number);

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
std::unique_ptr<World> open_burst_world(const WorldFiles& files);
bool is_burst_trace(const std::string& path);

// The trace experiment of EasyScale (SC'23, section 5.2): 32 V100 on 4 hosts, 16 P100 on 8, 16 T4 on 4; rounds of 60 s;
// a job's first start costs 20 s, as published, later changes nothing; with --charge SECONDS, each costs SECONDS.
//
// The policies with that simulator's rules are easyscale-homo:rule=simulator and easyscale-heter:rule=simulator.
// The makespan is counted as the published simulator counts: to the beginning of the round in which the last job
// ends. The times of its published allocations are early by the same 60 s.
//
// Seconds of a mini-batch come from the two tables for a single worker without switches between ESTs: fig12 (D1), and
// fig11 (D1, switching off) at a second batch.
//
// The folder holds step_times.csv. A trace has the columns name, submit_s, model, max_parallelism, batch_per_est,
// epochs, heterogeneous, preferred_gpu. If several jobs have the same name, the last job counts, at the position of
// the first, as in the published simulator. The type of device with the largest ESTs x seconds determines the time of a
// step.
std::unique_ptr<World> open_easyscale_world(const WorldFiles& files);

// Jobs with deadlines and measured speeds, as ElasticFlow's authors (ASPLOS'23) simulated them: hosts with 8 A100,
// rounds of 60 s, no cost of a change without --charge (the published simulator's cost is not in its data).
//
// The folder holds elasticflow_throughputs.csv: gpu, model, global_batch_size, num_gpu, iters_per_s. A trace has the
// columns job, submit_s, model, batch_size, num_gpu, deadline_s, iterations, or the columns of the authors' own files
// (job_id, submit_time, model_name, batch_size, num_gpu, ddl, real_iteration), and may have cluster: a workload for
// each. Speeds were measured on powers of two; on other numbers a job is as fast as on the power below. The clusters 1
// to 10 are the authors'; other clusters are as typed.
std::unique_ptr<World> open_elasticflow_world(const WorldFiles& files);
bool is_elasticflow_trace(const std::string& path);

// The world of Pollux's simulator: 16 hosts with 4 T4 each, six applications with measured speeds, rounds of 60 s. The
// published charge for every change of devices, including the first, is 30 s.
//
// The folder holds pollux_placements.csv, pollux_interpolated.csv and pollux_validation.csv (each may end in ".gz"). A
// trace has the columns name, time_s, application, num_replicas, batch_size, and optionally load and workload: then
// each pair is a workload, named LOAD/WORKLOAD.
std::unique_ptr<World> open_pollux_world(const std::string& folder, const std::string& trace);

}  // namespace estrain::simulate

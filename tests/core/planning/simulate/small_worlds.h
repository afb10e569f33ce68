#pragma once
// Small traces and tables in a temporary folder of the test.

#include <map>
#include <string>

#include "core/planning/simulate/report.h"
#include "core/planning/simulate/simulation.h"
#include "tests/scratch_folder.h"

namespace estrain::simulate {

// Writes tables in Pollux's format with one application. Batch 12 is the base; the gain is batch / 12.
inline void write_pollux_tables(const ScratchFolder& folder, const std::string& step_seconds = "2.017") {
  folder.write("pollux_placements.csv",
               "app,placement,local_bsz,step_time_s,sync_time_s\n"
               "bert,1,4,1,0\nbert,1,12," +
                   step_seconds +
                   ",0\n"
                   "bert,2,4,0.8,0.2\nbert,2,6,1.2,0.2\nbert,2,12,2.2,0.2\n"
                   "bert,11,4,1.8,1\nbert,11,12,3.2,1\n");
  folder.write("pollux_interpolated.csv",
               "app,num_nodes,num_replicas,local_bsz,step_time_s,sync_time_s\nbert,1,3,4,0.7,0.2\n");
  folder.write("pollux_validation.csv",
               "app,batch_size,epoch,progress,iteration,metric,grad_sqr,grad_var\n"
               "bert,12,0,100,100,0,0,1\nbert,12,1,200,200,0,0,1\nbert,24,0,101,50,0,0,1\nbert,24,1,205,100,0,0,1\n");
}

inline SimulationResult run_once(const World& world, const std::string& workload, const std::string& policy,
                                 const Charge& charge = {}, uint64_t seed = 1) {
  const scheduling::PolicyChoice choice = scheduling::make_policy(policy, seed);
  return simulate(world.make(workload, choice.knowledge, charge, seed), choice, seed, {.keep_stretches = true});
}

inline std::map<std::string, double> jcts(const SimulationResult& result) {
  std::map<std::string, double> all;
  for (const JobResult& job : result.jobs) all[job.name] = job.jct();
  return all;
}

}  // namespace estrain::simulate

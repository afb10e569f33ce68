#pragma once
// The job of `estrain plan --burst SPEC`: the times of the network's blocks on this machine, the number of devices, and
// the links between the devices.

#include <cstdint>
#include <string>
#include <vector>

#include "cmd/burst_plan.h"
#include "core/job/spec/job_spec.h"
#include "core/planning/plan/burst_job.h"
#include "core/state/comm/messages/probe_messages.h"

namespace estrain::cmd {

struct BurstJob {
  spec::JobSpec spec;
  std::string device;   // that timed the blocks: "cpu"
  int64_t devices = 1;  // at most
  comm::BlockTimes times;
  std::vector<comm::ProbedFactors> factors;  // of gradients that may go as factors
  plan::BurstNetwork network;
  std::string links;               // where bandwidth and delay come from: a clause
  std::vector<std::string> notes;  // what the user may not expect: sentences

  std::vector<plan::BurstPart> parts() const;
};

// Trains the job for some seconds, in a process of its own, to time the blocks. Throws Fault::usage for devices of
// several kinds; as HostsTable::measure(), launch::check_devices() and launch::time_blocks().
BurstJob time_burst_job(const BurstPlanArguments& arguments);

}  // namespace estrain::cmd

#pragma once
// The part of each host of a job in a stage. The coordinator sends a copy of the plan to each host.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/json/fields.h"

namespace estrain::hosts {

struct HostShare {
  std::string name;               // "" is the coordinator's
  std::string address;            // "10.0.0.2:7000"; empty for the coordinator, which connects to all other hosts
  std::vector<EstRange> workers;  // in order without gaps, at least one worker
  bool sees_run = true;           // the run directory: the host may take over

  EstRange ests() const { return {workers.front().begin, workers.back().end}; }

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(name, address, workers, sees_run)
};

struct HostPlan {
  uint64_t stage = 0;            // counts the stages of a run, from 1
  int64_t step = 0;              // the step from whose state the stage begins
  int64_t evaluation_batch = 1;  // samples
  bool any_processor = false;    // bits do not depend on the processor, or other processors are accepted
  bool clear = false;            // the workers' exchange goes without encryption
  std::vector<HostShare> hosts;
  size_t own = 0;  // the index of this host
  // Another host needs these fields to take over as coordinator: the device of each worker as the coordinator names it,
  // and the options with which the run was started.
  std::vector<std::string> devices;
  bool allow_mixed = false, oversubscribe = false;
  double grace_seconds = 0;
  bool gpus_sum = false;     // GPUs sum the gradients over all hosts: the couriers pass on no sums
  bool factors = false;      // factors of gradients may be sent in place of sums (core/state/comm/gradient_factors.h)
  bool all_factors = false;  // even if the network would be faster

  int64_t ests() const { return hosts.back().ests().end.value; }
  const HostShare& here() const { return hosts[own]; }
  // Returns the number of workers on the hosts before `host`: the rank of the host's first worker.
  int64_t workers_before(size_t host) const;
  // The largest numbers that a frame can carry.
  static constexpr uint64_t most_stages = uint64_t{1} << 24;
  static constexpr int64_t most_steps = int64_t{1} << 40;

  static constexpr bool is_complete = true;
  ESTRAIN_FIELDS(stage, step, evaluation_batch, any_processor, clear, hosts, own, devices, allow_mixed, oversubscribe,
                 grace_seconds, gpus_sum, factors, all_factors)
  // Throws Fault::corrupt if ranges do not follow each other from EST 0 on, or a number is out of bounds.
  void require_sound() const;
};

}  // namespace estrain::hosts

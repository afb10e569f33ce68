#pragma once
// Burst-parallel plans (burst.h) of a job whose network's blocks have been timed on one device.
//
// ESTs stay whole: the fullest of g devices has ceil(N/g) of N ESTs, and computes the mini-batches one after another.
// Every device that runs a block updates the block's parameters:
//
//     compute(i, g) = ceil(N/g) (forward_i + backward_i) + update_i
//
// Gradients go as factors by choice_of() (factors.h), as between g hosts with one device each: where the devices wait
// for the sums of all blocks over g devices. Data parallelism is counted in the same way.

#include <cstdint>
#include <string>
#include <vector>

#include "core/planning/plan/burst.h"
#include "core/planning/plan/factors.h"

namespace estrain::plan {

struct MeasuredBlock {
  std::string name;
  double forward = 0, backward = 0;  // seconds of a mini-batch
  double update = 0;                 // seconds of a step
  double output_bytes = 0;           // of a mini-batch: the activation that the next block takes; the last block: 0
  double parameter_bytes = 0;        // with gradients
  std::vector<FactoredGradient> factored = {};
};

struct BurstDevices {
  int64_t ests = 1;  // of the job
  int64_t most = 1;  // devices
  BurstNetwork network = {};
  bool sends_all_factors = false;  // even if the network would be faster
};

// Returns the blocks as a chain, with times on 1, 2, 4 … devices: at most `devices.most`, and at most one for each EST.
std::vector<BurstPart> parts_of(const std::vector<MeasuredBlock>& blocks, const BurstDevices& devices);

struct BurstVerdict {
  BurstPlan best;               // the fastest plan within the limit
  std::vector<BurstPlan> same;  // data parallel: all layers on 1, 2, 4 … devices, whatever the limit
  size_t fastest = 0;           // index of the fastest plan of `same`
  double speed_up = 1;          // the seconds of same[fastest], divided by those of `best`
  std::string no_gain;          // why `best` gains nothing: a clause; empty: `best` gains
};

// Compares `best`, found by best_burst_plan() of the same parts, network and limit, with data parallelism. A gain below
// 1 % is none.
BurstVerdict weigh_burst_plan(BurstPlan best, const std::vector<BurstPart>& parts, const BurstNetwork& network,
                              double limit);

}  // namespace estrain::plan

#pragma once
// Burst-parallel plans (DeepPool, MLSys'22, section 4): one iteration of a job at a fixed global batch, in which each
// layer has its own number of devices. Layers that scale badly leave devices to other jobs.
//
// A layer on g devices after a layer on h devices takes transfer + compute + sync seconds. Transfer: unless g is h, the
// input moves from h to g devices (and the gradient back). Sync sums gradients over g devices, or passes on factors of
// gradients and multiplies these. The layer is allowed if
//
//     (transfer + compute + sync) x g  <=  limit x (compute on one device).
//
// Layers form a chain. A block of branches, each a chain, may replace a layer. Branches run one after another; each
// begins where the layer before the block ended, and all end on the same number of devices. The plan is the shortest
// path through (layer, devices) along allowed edges. The plan is exact for this model, and with a limit of at least 1
// a plan always exists. The published search checks the limit along a single path, and so is not exact.

#include <cstdint>
#include <string>
#include <vector>

namespace estrain::plan {

// How the devices of a layer come to the sums of its gradients.
struct BurstSync {
  double bytes = 0;            // that a device passes on, of sums and factors
  double product_seconds = 0;  // of the other devices' factors
  int64_t factored = 0;        // gradients that go as factors
};

struct BurstLayer {
  std::string name;
  std::vector<double> compute;  // seconds of forward and backward pass for the whole batch on 1, 2, 4, 8 … devices
  double input_bytes = 0;       // input activations of the whole batch
  double parameter_bytes = 0;
  std::vector<BurstSync> sync = {};  // on 1, 2, 4, 8 … devices; empty: all gradients go as sums
};

using BurstChain = std::vector<BurstLayer>;

// A chain with a single layer, or branches of a block.
struct BurstPart {
  std::vector<BurstChain> branches;
};

struct BurstNetwork {
  double bandwidth = 266e9;  // bytes a second, of each device
  double delay = 40e-6;      // seconds
};

struct BurstStep {
  std::string layer;
  int64_t devices = 1;
  double transfer = 0, compute = 0, sync = 0;  // seconds
  int64_t factored = 0;                        // gradients that go as factors
  double seconds() const { return transfer + compute + sync; }
};

struct BurstPlan {
  std::vector<BurstStep> steps;
  double seconds = 0;         // of an iteration
  double device_seconds = 0;  // sum over steps of seconds x devices
  double amplification = 0;   // device-seconds over the seconds of an iteration on one device
};

// Returns the time to move a layer's input between h and g devices: the smaller set passes bytes on, both ways.
double transfer_seconds(const BurstNetwork& network, double input_bytes, int64_t from, int64_t to);

// Throws Fault::usage for a limit below 1. Throws Fault::spec if layers list different numbers of devices, no number,
// or an invalid time, or if a branch is empty.
BurstPlan best_burst_plan(const std::vector<BurstPart>& parts, const BurstNetwork& network, double limit);

// Returns the plan with all layers on `devices`, a power of two listed by every layer; no limit applies.
BurstPlan data_parallel_plan(const std::vector<BurstPart>& parts, const BurstNetwork& network, int64_t devices);

// Returns whether each step of the plan is within the limit.
bool is_within(const BurstPlan& plan, const std::vector<BurstPart>& parts, double limit);

}  // namespace estrain::plan

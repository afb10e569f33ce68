#pragma once
// `estrain plan --burst`: chooses the number of devices for each layer from a table of measured layers.

#include <cstdint>
#include <string>

namespace estrain::cmd {

struct BurstPlanArguments {
  std::string table, model;  // model: NAME or NAME/SET
  int64_t batch = 32, devices = 8;
  double limit = 2;
  double bandwidth = 266, delay = 40;  // GB/s of a device, microseconds
  bool json = false;
};

// Prints the plan, and data-parallel plans for comparison. Returns the exit code. Throws Error.
int run_burst_plan(const BurstPlanArguments& arguments);

}  // namespace estrain::cmd

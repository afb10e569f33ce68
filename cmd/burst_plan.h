#pragma once
// `estrain plan --burst`: chooses a number of devices for each block of a job's network, timed on this machine, or for
// each layer of a table of measured layers.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace estrain::cmd {

struct BurstPlanArguments {
  // A job: of estrain plan.
  std::string spec = {}, run = {}, device_list = {};
  std::vector<std::string> overrides = {};
  double seconds = 3;  // of timing
  // A table.
  std::string table = {}, model = {};  // model: NAME or NAME/SET
  int64_t batch = 32;
  // Both.
  int64_t devices = 8;
  double limit = 2;
  double bandwidth = 266, delay = 40;  // GB/s of a device, microseconds
  bool json = false;
  std::set<std::string> given = {};  // the options on the command line: "--gpus"; SPEC

  bool has(const std::string& option) const { return given.contains(option); }
};

// Prints the plan, data-parallel plans for comparison, and what the plan gains, or why nothing is gained. Returns the
// exit code. Throws Error; Fault::usage for options that do not fit together.
int run_burst_plan(const BurstPlanArguments& arguments);

}  // namespace estrain::cmd

#pragma once
// What the launcher remembers of shares that were in force, and knows of room for more workers.

#include <cstdint>
#include <string>
#include <vector>

#include "core/conduct/state.h"

namespace estrain::launch {

// How long steps took with shares that were in force not long ago.
struct TriedShares {
  double step_seconds = 0;
  int64_t ended_ns = 0;  // monotonic
};

// Shares by which worker has how many ESTs, in rank order: "0=5 2=3 ". Worker -1 is one to be started.
std::string shares_key(const std::vector<conduct::Device>& devices, const std::vector<int64_t>& workers);
std::string shares_key(const conduct::State& job);  // of those in force

// How many more workers fit into memory.
struct WorkerRoom {
  int64_t workers = 0;
  std::string reason;  // in words
};

}  // namespace estrain::launch

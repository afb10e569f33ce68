#pragma once
// A StageOrder is the launcher's message to a worker at the start of a stage.

#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/state/comm/messages/worker_messages.h"

namespace estrain::train {

struct StageOrder {
  using Beyond = comm::BeyondHost;

  WorkerRank worker;                            // index of this worker's range
  std::vector<EstRange> ranges;                 // of all workers of this host
  std::optional<Beyond> beyond = std::nullopt;  // empty: the stage is on this host alone
  bool restarted = false;                       // not the first stage of a fresh run: at D0, seed the generators again
  bool exchanges = false;               // each worker of all hosts has its own GPU, and GPUs pass data to each other
  bool again = false;                   // continues a stage with the state in another memory (Stage::Left::again)
  std::vector<std::string> kinds = {};  // of the workers' devices: "cpu", "cpu:avx2", "cuda"; empty: all are "cpu"

  int64_t exchange = 0;  // ticket of the prepared exchange between the workers; 0: none is prepared

  EstRange own() const { return ranges[static_cast<size_t>(worker.value)]; }
  uint32_t workers() const { return static_cast<uint32_t>(ranges.size()); }  // of this host
  // Returns the worker's number among the workers of all hosts.
  WorkerRank rank() const { return WorkerRank(worker.value + (beyond ? beyond->first_worker : 0)); }
  int64_t all_workers() const { return beyond ? beyond->workers : static_cast<int64_t>(ranges.size()); }
  // Of all workers, in rank order. Over several hosts known only if GPUs pass data to each other.
  const std::vector<EstRange>& all_ranges() const { return beyond ? beyond->ranges : ranges; }
};

}  // namespace estrain::train

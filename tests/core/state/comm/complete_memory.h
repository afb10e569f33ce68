#pragma once
// A small job memory, complete, and a look at waiting calls.

#include <chrono>
#include <future>

#include "core/state/comm/job_memory.h"

namespace estrain::comm {

inline MemoryPlan small_plan() {
  MemoryPlan plan;
  plan.manifest = "the manifest";
  plan.state_bytes = 5000;
  plan.gradient_bytes = 4100;
  plan.ests = 3;
  plan.parameters = 7;
  plan.digests = 9;
  plan.evaluation_samples = 11;
  plan.evaluation_columns = 2;
  plan.evaluation_numbers = 3;
  plan.ring_records = 4;
  return plan;
}

// A complete memory, with the mapping of the process that created it.
struct CompleteMemory {
  UniqueFd fd = JobMemory::create();
  JobMemory memory{fd.get()};
  CompleteMemory() {
    memory.lay_out(small_plan());
    memory.set_ready();
  }
};

template <typename T>
bool done(std::future<T>& future) {
  return future.wait_for(std::chrono::milliseconds(50)) == std::future_status::ready;
}

}  // namespace estrain::comm

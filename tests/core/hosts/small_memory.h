#pragma once
// The memory of a job with a single parameter, without records and ready, for tests of what hosts tell each other.

#include <cstdint>

#include "core/state/checkpoint/state/manifest.h"
#include "core/state/comm/job_memory.h"

namespace estrain::hosts {

// `floats`: of the parameter.
inline void lay_out_small(comm::JobMemory& memory, int64_t ests, int64_t floats = 5) {
  checkpoint::Manifest manifest;
  manifest.layout.append(checkpoint::Role::parameter, "p", "", checkpoint::DType::f32, {floats});
  comm::MemoryPlan plan;
  plan.manifest = manifest.to_json();
  plan.state_bytes = plan.gradient_bytes = manifest.layout.bytes;
  plan.ests = ests;
  plan.parameters = plan.digests = 1;
  plan.ring_records = 8;
  memory.lay_out(plan);
  memory.set_ready();
}

}  // namespace estrain::hosts

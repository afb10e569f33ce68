#pragma once
// The bytes of a job's shared memory that hosts exchange: known from the manifest, the same on all hosts.

#include <cstdint>
#include <span>
#include <vector>

#include "core/hosts/exchange/host_plan.h"
#include "core/state/checkpoint/state/manifest.h"
#include "core/state/comm/job_memory.h"

namespace estrain::hosts {

using Places = std::vector<std::span<std::byte>>;

// Floats [begin, end) of an array with the layout of the parameters.
struct ParameterRange {
  size_t begin = 0, end = 0;
  size_t size() const { return end - begin; }
};

size_t bytes_of(const Places& places);
std::vector<std::byte> gather(const Places& places);
void scatter(std::span<const std::byte> bytes, const Places& places);

class SharedParts {
 public:
  SharedParts(comm::JobMemory& memory, const HostPlan& plan);

  const std::vector<ParameterRange>& parameters() const { return parameters_; }
  size_t floats() const { return floats_; }

  // The places, in the state and in the pending record, that the host's ESTs write in the step after `step`.
  Places context(size_t host, int64_t step) const;
  // The results of an evaluation as written by the host's workers: worker b mod W has batch b.
  Places evaluation(size_t host) const;
  Places state(int64_t step) const;

 private:
  comm::JobMemory& memory_;
  const HostPlan& plan_;
  checkpoint::Manifest manifest_;
  std::vector<ParameterRange> parameters_;
  size_t floats_ = 0;
  int64_t buffers_ = 0;
};

}  // namespace estrain::hosts

#pragma once
// Asks a fresh process for the operators of a job and for the cost of the portable kernels (core/engine/train/probe.h),
// and decides the meaning of `determinism = "auto"`. Or asks the process for the times of the network's blocks.

#include <string>
#include <vector>

#include "core/job/spec/job_spec.h"
#include "core/run/launch/preflight/devices.h"
#include "core/state/comm/messages/probe_messages.h"

namespace estrain::launch {

// Returns the probe's report (comm::TryMiniBatch). Throws an error of the probe with the probe's fault.
comm::ProbeReport probe_operators(const spec::JobSpec& spec, const Device& device, bool measures,
                                  bool foretells = false, bool factors = false);

// Tries a mini-batch of the job's size, and one of a single sample (ProbeReport::one_sample_error).
comm::ProbeReport probe_batch(const spec::JobSpec& spec, const Device& device);

// Returns the probe's times (comm::TimeBlocks). `seconds`: of training, at least. Throws as probe_operators().
comm::BlockTimes time_blocks(const spec::JobSpec& spec, const Device& device, double seconds);

// Returns the operators of a report without a portable kernel, as "aten::name on Double (layer, layer)".
std::vector<std::string> uncovered_operators(const comm::ProbeReport& report);
// In the same form, the operators that fail on GPUs below D2: LibTorch has no deterministic kernel.
std::vector<std::string> raising_operators(const comm::ProbeReport& report);
// The operators whose algorithm a CUDA library chooses on GPUs below D2, where the run would choose others.
std::vector<std::string> unpinned_operators(const comm::ProbeReport& report);

// D2 where every operator is covered and a mini-batch takes at most this many times LibTorch's.
inline constexpr double most_cost_of_d2 = 1.05;

struct BitsChoice {
  spec::Determinism determinism;
  spec::Kernels kernels;
  std::string reason;

  void settle(spec::JobSection& job) const;  // `job`: with determinism "auto"
};
// `report` is of the same job, and has been measured.
BitsChoice choose_determinism(const spec::JobSpec& spec, const comm::ProbeReport& report);

// The table of `estrain check`.
std::string format_operators(const comm::ProbeReport& report);

}  // namespace estrain::launch

#pragma once
// Asks a fresh process which operators a job uses and what the portable kernels cost (core/engine/train/probe.h), and
// decides what `determinism = "auto"` means.

#include <string>
#include <vector>

#include "core/job/spec/job_spec.h"
#include "core/run/launch/preflight/devices.h"
#include "core/state/comm/messages/probe_messages.h"

namespace estrain::launch {

// Returns the probe's report. Throws an error of the probe with the fault it had there.
comm::ProbeReport probe_operators(const spec::JobSpec& spec, const Device& device, bool measures);

// Operators of a report that no portable kernel covers, as "aten::name on Double (layer, layer)".
std::vector<std::string> uncovered_operators(const comm::ProbeReport& report);

// D2 where every operator is covered and a mini-batch takes at most this many times LibTorch's.
inline constexpr double most_cost_of_d2 = 1.05;

struct Verdict {
  spec::Determinism determinism;
  spec::Kernels kernels;
  std::string reason;

  void settle(spec::JobSection& job) const;  // a job whose determinism is "auto"
};
// `report` is of that job, and has been measured.
Verdict choose_determinism(const spec::JobSpec& spec, const comm::ProbeReport& report);

// The table of `estrain check`.
std::string format_operators(const comm::ProbeReport& report);

}  // namespace estrain::launch

#pragma once
// The job of `estrain plan`: the job's spec, and the devices of the command line or of a run.

#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/job/placement/assignment.h"
#include "core/job/resources/allocation.h"
#include "core/job/spec/job_spec.h"
#include "core/planning/plan/factors.h"
#include "core/run/launch/control/status.h"
#include "core/state/comm/messages/probe_messages.h"

namespace estrain::cmd {

// Reads the spec in the file `spec`; without a file, the spec of `run`. Throws Fault::usage if both are empty, or if
// `run` is no run; as spec::parse_file().
spec::JobSpec planned_spec(const std::string& spec, const std::string& run, const std::vector<std::string>& overrides);

// Decides `determinism = "auto"` as train does when a run begins.
void settle_determinism(spec::JobSpec& spec, const placement::Device& device);

// Returns the devices of a list, as train does; "auto": all of the allocation.
placement::Assignment planned_devices(const std::string& list, const spec::JobSpec& spec,
                                      const resources::Allocation& allocation);

// Returns the devices in use by the run, with the ESTs of each; empty without a launcher at work.
placement::Assignment devices_of_run(const std::string& run);

// Returns a gradient's factors, as a probe has measured them, for a plan.
plan::FactoredGradient factored_gradient(const comm::ProbedFactors& probed);

// The part of this host in a run.
struct HostInRun {
  std::string own;                          // this host's name
  std::optional<launch::RunStatus> status;  // of a run over hosts; nothing: no run, or the run has not begun

  explicit HostInRun(const std::string& run);  // `run` may be empty
  // The error for devices of which none is this host's.
  Error no_own_device() const;
  bool is_own(const placement::Share& share) const { return share.device.host.empty() || share.device.host == own; }
};

}  // namespace estrain::cmd

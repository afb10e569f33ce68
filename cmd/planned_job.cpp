#include "cmd/planned_job.h"

#include <filesystem>

#include "cmd/job_hosts.h"
#include "core/base/error.h"
#include "core/job/spec/enum_names.h"
#include "core/job/spec/parsing/parse.h"
#include "core/run/launch/control/run_status.h"
#include "core/run/launch/preflight/devices.h"
#include "core/run/launch/preflight/early_checks.h"
#include "core/run/launch/preflight/operator_probe.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::cmd {
namespace {

// A folder with waiting agents may be no run yet.
bool is_begun(const std::string& run) { return std::filesystem::exists(run_directory::RunDirectory(run).spec()); }

}  // namespace

spec::JobSpec planned_spec(const std::string& spec, const std::string& run, const std::vector<std::string>& overrides) {
  if (!spec.empty()) return spec::parse_file(spec, overrides);
  if (run.empty()) {
    throw Error(Fault::usage, "no job given").advise("estrain plan SPEC.toml, or estrain plan --run RUN");
  }
  launch::run_status(run);  // throws if the directory is no run
  return spec::parse_file(run_directory::RunDirectory(run).spec(), overrides);
}

void settle_determinism(spec::JobSpec& spec, const placement::Device& device) {
  if (spec.job.determinism != spec::Determinism::automatic) return;
  const launch::BitsChoice verdict = launch::choose_determinism(spec, launch::probe_operators(spec, device, true));
  verdict.settle(spec.job);
  fmt::print(stderr, "determinism \"auto\" is {} here: {}\n", spec::to_string(verdict.determinism), verdict.reason);
}

placement::Assignment planned_devices(const std::string& list, const spec::JobSpec& spec,
                                      const resources::Allocation& allocation) {
  const bool automatic = list == launch::automatic_devices;
  return launch::choose_devices(automatic ? launch::automatic_gpus(allocation).device_list(spec.job.ests) : list,
                                spec.job, allocation.cores);
}

placement::Assignment devices_of_run(const std::string& run) {
  placement::Assignment devices;
  const launch::RunStatus status = launch::run_status(run);
  if (!status.workers) return devices;
  for (const launch::WorkerStatus& worker : *status.workers)
    devices.push_back({placement::devices_from({worker.device}).front(), worker.ests.size()});
  return devices;
}

plan::FactoredGradient factored_gradient(const comm::ProbedFactors& probed) {
  return {static_cast<double>(probed.gradient_bytes), probed.bytes, probed.seconds};
}

HostInRun::HostInRun(const std::string& run) : own(own_host_name()) {
  if (run.empty() || !is_begun(run)) return;
  launch::RunStatus found = launch::run_status(run);
  if (!found.hosts) return;
  own = found.hosts->front().host;
  status = std::move(found);
}

Error HostInRun::no_own_device() const {
  return Error::make(Fault::usage, "--devices names none of this host, {}", own).advise("add one, such as cpu");
}

}  // namespace estrain::cmd

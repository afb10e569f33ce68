#include "cmd/burst_job.h"

#include <algorithm>
#include <optional>

#include "cmd/plan_report.h"
#include "cmd/planned_job.h"
#include "core/base/error.h"
#include "core/run/launch/preflight/devices.h"
#include "core/run/launch/preflight/operator_probe.h"

namespace estrain::cmd {
namespace {

using placement::Assignment;
using placement::Device;
using placement::Share;

// Returns the listed devices, or those of the run; empty: neither is known.
Assignment listed_devices(const BurstPlanArguments& arguments, const spec::JobSpec& spec,
                          const resources::Allocation& allocation) {
  if (!arguments.device_list.empty()) return planned_devices(arguments.device_list, spec, allocation);
  return arguments.run.empty() ? Assignment() : devices_of_run(arguments.run);
}

// Returns a device of this host, for timing. Throws Fault::usage if this host has none, or if the devices differ.
Device device_to_time(const Assignment& devices, const HostInRun& here) {
  const auto own = std::ranges::find_if(devices, [&](const Share& share) { return here.is_own(share); });
  if (own == devices.end()) throw here.no_own_device();
  placement::Devices all = placement::devices_of(devices);
  if (!launch::are_of_one_kind(all))
    throw Error::make(Fault::usage, "plan --burst takes devices of one kind, not {}", launch::counted_devices(all))
        .advise("list devices of one kind: --devices cpu*4");
  Device device = own->device;
  device.host.clear();
  return device;
}

// Measures the links where the devices are on several hosts.
std::optional<plan::Link> link_between(const Assignment& devices, const BurstPlanArguments& arguments,
                                       const HostInRun& here) {
  if (std::ranges::all_of(devices, [&](const Share& share) { return here.is_own(share); })) return std::nullopt;
  HostsTable hosts(devices, here.own);
  hosts.measure(arguments.run, here.status ? &*here.status : nullptr);
  return hosts.slowest_link();
}

void set_links(BurstJob& job, const BurstPlanArguments& arguments, const std::optional<plan::Link>& link) {
  const bool has_bandwidth = arguments.has("--bandwidth"), has_delay = arguments.has("--delay");
  job.network = {1e9 * arguments.bandwidth, 1e-6 * arguments.delay};
  if (link && !has_bandwidth) job.network.bandwidth = link->bytes_per_second;
  if (link && !has_delay) job.network.delay = link->round_trip_seconds;
  if (has_bandwidth && has_delay) {
    job.links = "as given";
  } else if (link) {
    job.links = has_bandwidth || has_delay ? "as given and measured" : "the slowest link between the hosts, measured";
  } else {
    job.links = "assumed; --bandwidth and --delay tell others, and --run takes those measured between hosts";
  }
}

void add_notes(BurstJob& job) {
  if (job.times.blocks.size() > 1) return;
  if (job.spec.model.is_python()) {
    job.notes.emplace_back(
        "the blocks of a module in Python cannot be told apart: the whole module is one block. `estrain export` writes "
        "the module as a program, which has blocks");
  } else if (job.spec.model.is_users()) {
    job.notes.emplace_back(
        "the program is one block: nowhere between its calls with parameters does exactly one activation cross");
  }
}

}  // namespace

std::vector<plan::BurstPart> BurstJob::parts() const {
  std::vector<plan::MeasuredBlock> blocks;
  for (const comm::TimedBlock& block : times.blocks) {
    blocks.push_back({.name = block.name,
                      .forward = block.forward,
                      .backward = block.backward,
                      .update = block.update,
                      .output_bytes = static_cast<double>(block.output_bytes),
                      .parameter_bytes = static_cast<double>(block.parameter_bytes)});
    for (const comm::ProbedFactors& each : factors) {
      if (std::ranges::find(block.parameters, each.parameter) != block.parameters.end())
        blocks.back().factored.push_back(factored_gradient(each));
    }
  }
  return plan::parts_of(blocks, {.ests = spec.job.ests,
                                 .most = devices,
                                 .network = network,
                                 .sends_all_factors = spec.network.factors == spec::SendFactors::always});
}

BurstJob time_burst_job(const BurstPlanArguments& arguments) {
  BurstJob job;
  job.spec = planned_spec(arguments.spec, arguments.run, arguments.overrides);
  const resources::Allocation allocation = resources::current_resources();
  const HostInRun here(arguments.run);
  const Assignment listed = listed_devices(arguments, job.spec, allocation);
  const Device device =
      device_to_time(listed.empty() ? planned_devices(job.spec.resources.devices, job.spec, allocation) : listed, here);
  launch::check_devices({device}, {});
  job.device = device.text();
  job.devices = listed.empty() || arguments.has("--gpus") ? arguments.devices : std::ssize(listed);
  set_links(job, arguments, link_between(listed, arguments, here));
  settle_determinism(job.spec, device);
  fmt::print(stderr, "timing the blocks of {} on {}\n", job.spec.model.name, job.device);
  job.times = launch::time_blocks(job.spec, device, arguments.seconds);
  if (launch::may_send_factors(job.spec, {device}))
    job.factors = launch::probe_operators(job.spec, device, false, false, /*factors=*/true).factors;
  add_notes(job);
  return job;
}

}  // namespace estrain::cmd

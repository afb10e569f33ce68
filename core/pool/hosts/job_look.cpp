#include "core/pool/hosts/job_look.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/process/memory_use.h"
#include "core/planning/dispatch/state.h"
#include "core/run/launch/control/control_socket.h"
#include "core/run/launch/control/run_status.h"

namespace estrain::pool {
namespace {

std::map<std::string, double> mini_batches_of(const std::vector<launch::WorkerStatus>& workers) {
  std::map<std::string, double> seconds, counts;
  for (const launch::WorkerStatus& worker : workers) {
    if (!worker.seconds_per_mini_batch) continue;
    const std::string type = dispatch::Slot{0, worker.device}.type();
    seconds[type] += (*worker.seconds_per_mini_batch - seconds[type]) / ++counts[type];
  }
  return seconds;
}

// Returns a process's own memory at its peak, without pages of files and of the run's shared memory; 0 if /proc does
// not tell.
double own_bytes(int64_t process) {
  const std::string status = text_if_readable(fmt::format("/proc/{}/status", process));
  const uint64_t peak = proc_bytes(status, "VmHWM").value_or(0);
  const uint64_t shared = proc_bytes(status, "RssFile").value_or(0) + proc_bytes(status, "RssShmem").value_or(0);
  return static_cast<double>(peak - std::min(peak, shared));
}

double largest_of(const std::vector<launch::WorkerStatus>& workers) {
  double most = 0;
  for (const launch::WorkerStatus& worker : workers) {
    if (worker.pid > 0) most = std::max(most, own_bytes(worker.pid));  // on this host
  }
  return most;
}

JobLook look_of(const launch::RunStatus& status) {
  JobLook look;
  look.state = status.state;
  look.step = status.step;
  look.total_steps = status.total_steps.value_or(0);
  look.held = status.held;
  look.devices_at_work = status.workers ? std::ssize(*status.workers) : 0;
  for (const launch::HostStatus& host : status.hosts.value_or(std::vector<launch::HostStatus>())) {
    if (host.bytes_per_second.value_or(0) > 0)
      look.links.push_back({host.host, *host.bytes_per_second, host.round_trip_seconds.value_or(0)});
  }
  if (status.workers) look.mini_batches = mini_batches_of(*status.workers);
  if (status.workers) look.worker_bytes = largest_of(*status.workers);
  look.step_seconds = status.plan ? status.plan->measured_step_seconds : 0;
  if (status.batch && status.lr_factor) {
    const double noise = status.gradient_noise ? status.gradient_noise->scale : 0;
    look.batch = {*status.batch, *status.lr_factor, status.epoch, noise};
  }
  return look;
}

}  // namespace

std::optional<JobLook> look_at_run(const std::string& run, Nanoseconds patience) {
  if (!launch::launcher_answers(run)) return std::nullopt;
  try {
    return look_of(launch::status_from_json(launch::ask_launcher(run, decisions::StatusRequest{}, patience)));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace estrain::pool

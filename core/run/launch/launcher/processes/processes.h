#pragma once
// The processes of a run started by the launcher: workers (one per device) and the scribe. All execute this process's
// own program file, even if another file lies at its path by now.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json/fields.h"
#include "core/base/process/child_process.h"
#include "core/run/decisions/state/member.h"
#include "core/run/launch/launcher/processes/fork_servers.h"
#include "core/run/launch/launcher/processes/work_sign.h"
#include "core/run/launch/preflight/devices.h"
#include "core/state/comm/messages/worker_messages.h"
#include "core/state/comm/messages/worker_options.h"
#include "core/state/record/scribe_messages.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::launch {

// The descriptors inherited and shared by the processes of a run.
struct SharedDescriptors {
  int memory;        // the job's shared memory
  int doorbell;      // eventfd for waking the scribe
  int lock;          // of the run directory; inherited by the scribe, which may outlive the launcher
  int spec;          // state/run_directory/passed_spec.h
  int library;       // the worker library of the job's beginning; -1: the job had no worker library
  int courier = -1;  // eventfd for waking the host's courier; -1: the host has no courier

  ESTRAIN_FIELDS(memory, doorbell, lock, spec, library, courier)
};

inline constexpr int kPatienceWithKillMs = 5000;  // until a process has ended after SIGKILL

struct WorkerProcess {
  ChildProcess process;
  comm::WorkerChannel socket;
  uint64_t log_begin = 0;            // where the worker's words begin in the log, behind those of earlier launches
  int64_t started_ns = 0;            // monotonic
  int64_t not_running_since_ns = 0;  // when the worker was first seen stopped (SIGSTOP); 0: never
  // The sign of life of a starting or silent worker, which may read, build and load large things.
  WorkSign work;
  bool host_lost = false;  // for a worker on another host: the proxy was told about the host's loss
};

// Tells a proxy about the loss of the proxy's host. Returns false if the proxy was told already: the courier reports a
// loss once for each host that notices the loss.
bool tell_host_lost(WorkerProcess& proxy, const std::string& why);

using Workers = std::map<decisions::WorkerId, WorkerProcess>;
WorkerProcess* process_of(Workers& workers, decisions::WorkerId id);  // null: the worker has no process

// Returns the signals that all processes of a run ignore; only the launcher decides about these signals.
const std::vector<int>& stop_signals();

struct WorkerStart {
  int64_t id = 0;
  Device device;
  bool is_elsewhere = false;  // on another host
  spec::JobSection job;
  comm::WorkerOptions options = {};
};

// Tells whether a worker here may be a copy of a fork server. A GPU's worker may not: no copy of a process has been
// tried with CUDA. Nor may a user's Python with several threads: numpy's library starts threads when loaded.
bool starts_by_fork(const Device& device, const spec::JobSpec& spec);

// The fork servers for starting a worker, and the longest wait for a server to have loaded.
struct QuickStart {
  ForkServers* servers = nullptr;  // null: by exec
  int patience_ms = 0;
};

// Starts a worker. A worker on another host is started by the host's agent, with a proxy here (core/hosts/setup.h).
WorkerProcess start_worker(const run_directory::RunDirectory& run, const SharedDescriptors& shared,
                           const WorkerStart& start, const QuickStart& quick = {});

// The process for talking to the couriers of other hosts.
struct CourierProcess {
  ChildProcess process;
  comm::MessageSocket socket;
};
CourierProcess start_courier(const run_directory::RunDirectory& run, const SharedDescriptors& shared);

struct ScribeProcess {
  ChildProcess process;
  record::ScribeChannel socket;
  int64_t started_ns = 0;
  int64_t not_running_since_ns = 0;
  uint64_t log_begin = 0;  // as in a worker
};

// `from_step`: later records are dropped (a resumed run continues from this step).
ScribeProcess start_scribe(const run_directory::RunDirectory& run, const SharedDescriptors& shared, int64_t from_step);

// All processes of a run but the launcher, and the descriptors that the processes share.
struct RunProcesses {
  SharedDescriptors shared{};
  Workers workers;  // of all members of the job
  ForkServers fork_servers;
  ScribeProcess scribe;
  std::optional<CourierProcess> courier;
};

}  // namespace estrain::launch

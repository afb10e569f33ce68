#pragma once
// The processes of a run that the launcher starts: workers (one per device) and the scribe. All execute the file that
// this process runs, whatever lies at its path by now.

#include <map>
#include <string>
#include <vector>

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

// The descriptors that the processes of a run inherit and share.
struct SharedDescriptors {
  int memory;        // the job's shared memory
  int doorbell;      // eventfd that wakes the scribe
  int lock;          // of the run directory; inherited by the scribe, which may outlive the launcher
  int spec;          // passed_spec.h
  int library;       // the worker library that was there when the job began; -1: there was none
  int courier = -1;  // eventfd that wakes the host's courier; -1: there is no courier

  template <typename Self, typename Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("memory", self.memory);
    visit("doorbell", self.doorbell);
    visit("lock", self.lock);
    visit("spec", self.spec);
    visit("library", self.library);
    visit("courier", self.courier);
  }
};

inline constexpr int kPatienceWithKillMs = 5000;  // until a process that was sent SIGKILL has ended

struct WorkerProcess {
  ChildProcess process;
  comm::WorkerChannel socket;
  uint64_t log_begin = 0;            // where its words begin in the log, behind those of earlier launches
  int64_t started_ns = 0;            // monotonic
  int64_t not_running_since_ns = 0;  // when it was first seen stopped (SIGSTOP); 0: it was not
  // The sign of life of a worker that starts or is silent: what it reads, builds and loads may be large.
  WorkSign work;
  bool host_lost = false;  // of one on another host: its proxy was told so
};

// Tells a proxy that its host is lost. False: it was told already. The courier reports a loss once for each host that
// notices it.
bool tell_host_lost(WorkerProcess& proxy, const std::string& why);

using Workers = std::map<decisions::WorkerId, WorkerProcess>;
WorkerProcess* process_of(Workers& workers, decisions::WorkerId id);  // null: it is gone

// Signals that all processes of a run but the launcher ignore: it alone decides what a signal to the job means.
const std::vector<int>& stop_signals();

struct WorkerStart {
  int64_t id = 0;
  Device device;
  bool is_elsewhere = false;  // on another host
  spec::JobSection job;
  comm::WorkerOptions options = {};
};

// Whether a worker here may be a copy of a fork server. A GPU's is not: no copy of a process has been tried with CUDA.
// Neither is a user's Python with several threads: numpy's library starts some when it is loaded.
bool starts_by_fork(const Device& device, const spec::JobSpec& spec);

// The fork servers that may start a worker, and how long it may wait for one to have loaded.
struct QuickStart {
  ForkServers* servers = nullptr;  // none: by exec
  int patience_ms = 0;
};

// A worker on another host is started by that host's agent: the process here stands in for it (core/hosts/setup.h).
WorkerProcess start_worker(const run_directory::RunDirectory& run, const SharedDescriptors& shared,
                           const WorkerStart& start, const QuickStart& quick = {});

// The process that talks to the couriers of other hosts.
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
  uint64_t log_begin = 0;  // as a worker's
};

// `from_step`: what was recorded after it is dropped (a resumed run goes on there).
ScribeProcess start_scribe(const run_directory::RunDirectory& run, const SharedDescriptors& shared, int64_t from_step);

}  // namespace estrain::launch

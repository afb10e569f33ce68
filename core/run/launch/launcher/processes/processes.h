#pragma once
// The processes of a run started by the launcher: workers (one per device) and the scribe. All execute this process's
// own program file, even if another file lies at its path by now.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/files/unique_fd.h"
#include "core/base/json/fields.h"
#include "core/base/process/child_process.h"
#include "core/base/process/fork_server.h"
#include "core/base/process/process_stat.h"
#include "core/run/decisions/state/member.h"
#include "core/run/launch/preflight/devices.h"
#include "core/state/comm/messages/message_socket.h"
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

// A WorkSign is the time at which a silent process was last seen at work: a pure function of looks at its files in
// /proc.
class WorkSign {
 public:
  // A smaller share of processor time counts as no processor time: threads in the background look around.
  static constexpr double kNone = 0.01;

  // Call again and again while the process is silent since `silent_since`. The process is at work
  // if it has taken processor time since its last work was found, or since the first look at the silence; or if it
  // runs, or would run if other processes did not hold the processor.
  void observe(MonotonicTime now, MonotonicTime silent_since, const ProcessStat& stat);
  void mark(MonotonicTime now) { at_ = now; }  // the process counts as at work

  MonotonicTime at() const { return at_; }  // kNoTime: never

 private:
  MonotonicTime at_{};
  std::optional<MonotonicTime> silent_since_;  // of the last look
  MonotonicTime from_{};                       // since when the processor time is counted
  uint64_t ticks_ = 0;                         // of processor time, taken until then
};

inline constexpr std::chrono::seconds kPatienceWithKill{5};  // until a process has ended after SIGKILL

// A WorkerLife is the process of a worker: a child of the launcher, or a process on another host, seen through the life
// line of the relay (state/comm/messages/relay_messages.h). If the relay ends, its workers have ended by SIGKILL.
class WorkerLife {
 public:
  WorkerLife() = default;
  WorkerLife(ChildProcess child) : child_(std::move(child)) {}
  explicit WorkerLife(comm::MessageSocket line) : line_(std::move(line)) {}

  bool running() const { return line_ || child_.running(); }
  pid_t pid() const { return child_.pid(); }                               // -1: on another host
  int line() const { return line_.descriptor(); }                          // -1: a child
  int descriptor() const { return line_ ? line() : child_.descriptor(); }  // readable once the process has ended

  // On another host, any signal is SIGKILL.
  void signal(int number);
  // Both as ChildProcess's.
  ChildEnd wait();
  bool wait_for(std::chrono::milliseconds limit, ChildEnd* end = nullptr);

 private:
  ChildProcess child_;
  comm::MessageSocket line_;
};

struct WorkerProcess {
  WorkerLife process;
  comm::WorkerChannel socket;
  uint64_t log_begin = 0;  // where the worker's words begin in the log, behind those of earlier launches
  MonotonicTime started{};
  MonotonicTime not_running_since{};  // when the worker was first seen stopped (SIGSTOP); kNoTime: never
  // The sign of life of a starting or silent worker, which may read, build and load large things.
  WorkSign work;
  bool host_lost = false;  // for a worker on another host: the relay was told about the host's loss
};

// Tells the relay that the worker's host is lost. Returns false if the relay was told already: the courier reports a
// loss once for each host that notices the loss.
bool tell_host_lost(WorkerProcess& worker, const std::string& why);

using Workers = std::map<decisions::WorkerId, WorkerProcess>;
WorkerProcess* process_of(Workers& workers, decisions::WorkerId id);  // null: the worker has no process

// Returns the signals that all processes of a run ignore; only the launcher decides about these signals.
const std::vector<int>& stop_signals();

struct WorkerStart {
  int64_t id = 0;
  Device device;
  bool in_background = false;
  spec::JobSection job;
  comm::WorkerOptions options = {};
};

// Tells whether a worker here may be a copy of a fork server. A user's Python with several threads may not: numpy's
// library starts threads when loaded. Nor may a user's Python on a GPU: only a copy of estrain's own program can be
// started anew where CUDA's driver serves no copies (cmd/fork_server.cpp).
bool starts_by_fork(const Device& device, const spec::JobSpec& spec);

// The fork servers of a run (core/base/process/fork_server.h): one for each environment in which workers of this host
// start. The environment differs by kind of device. Each server has loaded LibTorch, for GPUs with its part for CUDA,
// before a worker is lost or a device is added.
class ForkServers {
 public:
  // Starts the server for workers on this kind of device, unless the server runs already. The server loads the run's
  // worker library and decompresses the data of the run's spec; for a module in Python the server becomes the user's
  // Python, and imports torch. Where no server can be started, workers start by exec.
  void begin(const Device& device, const spec::JobSection& job, const SharedDescriptors& shared, bool in_background);

  // Starts a worker: as a copy of the server for its environment, after waiting at most `patience` until the server
  // has loaded; otherwise by exec. Throws Fault::io, as ChildProcess::start.
  ChildProcess start(const ChildOptions& worker, std::chrono::milliseconds patience);

  // A server across an exec of the launcher.
  struct KeptServer {
    std::vector<std::string> environment;  // name, value, name, …
    ForkServer::Note server;

    ESTRAIN_FIELDS(environment, server)
  };
  std::vector<KeptServer> notes() const;
  void adopt(const std::vector<KeptServer>& notes);

 private:
  using Environment = std::vector<std::pair<std::string, std::string>>;  // ChildOptions::environment
  std::vector<std::pair<Environment, ForkServer>> servers_;
};

// The fork servers for starting a worker, and the longest wait for a server to have loaded.
struct QuickStart {
  ForkServers* servers = nullptr;  // null: by exec
  std::chrono::milliseconds patience{0};
};

// Starts a worker on this host.
WorkerProcess start_worker(const run_directory::RunDirectory& run, const SharedDescriptors& shared,
                           const WorkerStart& start, const QuickStart& quick = {});

// The process for talking to the couriers of other hosts.
struct CourierProcess {
  ChildProcess process;
  comm::MessageSocket socket;
};
CourierProcess start_courier(const run_directory::RunDirectory& run, const SharedDescriptors& shared);

// The process between the launcher and the workers on other hosts (core/hosts/setup.h).
struct RelayProcess {
  ChildProcess process;
  UniqueFd socket;
  MonotonicTime not_running_since{};
};

struct ScribeProcess {
  ChildProcess process;
  record::ScribeChannel socket;
  MonotonicTime started{};
  MonotonicTime not_running_since{};
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
  std::optional<RelayProcess> relay;  // from the first worker on another host on
};

// Starts a worker on another host, by the host's agent; also starts the relay, unless the relay runs. Throws Fault::io.
WorkerProcess start_remote_worker(const run_directory::RunDirectory& run, RunProcesses& processes,
                                  const WorkerStart& start);

}  // namespace estrain::launch

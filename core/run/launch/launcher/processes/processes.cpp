#include "core/run/launch/launcher/processes/processes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/files/long_files.h"
#include "core/base/files/poll_set.h"
#include "core/base/json/json_text.h"
#include "core/base/process/packet_socket.h"
#include "core/state/comm/messages/relay_messages.h"
#include "core/state/comm/messages/worker_arguments.h"
#include "core/state/run_directory/term.h"

namespace estrain::launch {
namespace {

constexpr std::chrono::seconds kPatienceWithRelay{5};

double seconds_of(uint64_t ticks) { return static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK)); }

std::string number(int64_t value) { return std::to_string(value); }

WorkerProcess launch_worker(ChildOptions options, comm::MessageSocket ours, const QuickStart& quick) {
  options.same_program = true;
  options.ignored_signals = stop_signals();
  WorkerProcess worker;
  worker.log_begin = size_of_file(options.output);
  worker.process =
      quick.servers == nullptr ? ChildProcess::start(options) : quick.servers->start(options, quick.patience);
  worker.socket = comm::WorkerChannel(std::move(ours));
  worker.started = MonotonicClock::now();
  return worker;
}

RelayProcess start_relay(const run_directory::RunDirectory& run, const SharedDescriptors& shared) {
  run_directory::begin_terms(run.path());
  auto [ours, theirs] = packet_sockets();
  ChildOptions options;
  options.arguments = {own_executable(),    "relay", "--run", run.path(), "--spec", number(shared.spec), "--socket",
                       number(theirs.get())};
  options.same_program = true;
  options.inherited = {shared.spec, theirs.get()};
  options.output = run.relay_log();
  options.ignored_signals = stop_signals();
  return {ChildProcess::start(options), std::move(ours), {}};
}

bool is_hung_up(int socket) {
  pollfd line{socket, 0, 0};
  return poll_within({&line, 1}, 0ms) > 0;
}

// Waits while the relay has no room for a call.
void call_relay(int relay, const comm::RelayCall& call, std::span<const int> descriptors) {
  pollfd room{relay, POLLOUT, 0};
  if (poll_within({&room, 1}, kPatienceWithRelay) == 0 ||
      !send_packet(relay, json_text(codec::fields_of(call)), descriptors, MSG_DONTWAIT))
    throw Error::make(Fault::io,
                      "worker {} cannot be started on host {}: the process for workers on other hosts does "
                      "not answer",
                      call.id, call.host);
}

}  // namespace

void WorkerLife::signal(int number) {
  if (line_) {
    ::shutdown(line(), SHUT_WR);
  } else {
    child_.signal(number);
  }
}

ChildEnd WorkerLife::wait() {
  ChildEnd end;
  wait_for(kForever, &end);
  return end;
}

bool WorkerLife::wait_for(std::chrono::milliseconds limit, ChildEnd* end) {
  if (!line_) return child_.wait_for(limit, end);
  Json said;
  const comm::Received received = line_.receive(&said, limit);
  if (received == comm::Received::nothing) return false;
  comm::RelayedEnd ended{.signaled = true, .code = SIGKILL};
  if (received == comm::Received::message) codec::from_field(said, ended);
  if (end != nullptr) *end = {ended.signaled, ended.code, ended.peak_memory_bytes};
  line_.close();
  return true;
}

void WorkSign::observe(MonotonicTime now, MonotonicTime silent_since, const ProcessStat& stat) {
  const bool first_look = silent_since_ != silent_since;
  const double none = kNone * 1e-9 * static_cast<double>((now - from_).count());
  const bool worked = !first_look && stat.processor_ticks > ticks_ && seconds_of(stat.processor_ticks - ticks_) > none;
  silent_since_ = silent_since;
  if (worked || stat.state == 'R') at_ = now;
  if (!worked && !first_look) return;
  from_ = now;
  ticks_ = stat.processor_ticks;
}

bool tell_host_lost(WorkerProcess& worker, const std::string& why) {
  if (std::exchange(worker.host_lost, true)) return false;
  worker.socket.send(comm::HostLost{why});
  return true;
}

const std::vector<int>& stop_signals() {
  static const std::vector<int> signals = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};
  return signals;
}

WorkerProcess* process_of(Workers& workers, decisions::WorkerId id) {
  const auto at = workers.find(id);
  return at == workers.end() ? nullptr : &at->second;
}

bool starts_by_fork(const Device& device, const spec::JobSpec& spec) {
  return !spec.model.is_python() || (!device.is_gpu() && spec.job.threads == 1);
}

WorkerProcess start_worker(const run_directory::RunDirectory& run, const SharedDescriptors& shared,
                           const WorkerStart& start, const QuickStart& quick) {
  auto [ours, theirs] = comm::MessageSocket::pair();
  const comm::WorkerArguments arguments{.run = run.path(),
                                        .options = json_text(codec::fields_of(start.options)),
                                        .checkpoint = start.options.checkpoint,
                                        .spec = shared.spec,
                                        .library = shared.library,
                                        .memory = shared.memory,
                                        .socket = theirs.descriptor(),
                                        .doorbell = shared.doorbell,
                                        .courier = shared.courier};
  ChildOptions options;
  options.arguments = arguments.words();
  options.arguments.insert(options.arguments.begin(), own_executable());
  options.environment = device_environment(start.device, start.job, own_environment());
  options.inherited = {shared.spec, shared.memory, shared.doorbell, theirs.descriptor()};
  if (shared.library >= 0) options.inherited.push_back(shared.library);
  if (shared.courier >= 0) options.inherited.push_back(shared.courier);
  options.output = run.worker_log(start.id);
  options.in_background = start.in_background;
  return launch_worker(std::move(options), std::move(ours), quick);
}

WorkerProcess start_remote_worker(const run_directory::RunDirectory& run, RunProcesses& processes,
                                  const WorkerStart& start) {
  auto& relay = processes.relay;
  if (relay && is_hung_up(relay->socket.get())) {
    relay->process.wait_for(kPatienceWithKill);  // the sockets of a process close before its end
    relay.reset();
  }
  if (!relay) relay = start_relay(run, processes.shared);
  auto [ours, theirs] = comm::MessageSocket::pair();
  auto [our_line, their_line] = comm::MessageSocket::pair();
  call_relay(relay->socket.get(), {start.device.host, start.id, start.options},
             std::array{theirs.descriptor(), their_line.descriptor()});
  WorkerProcess worker;
  worker.process = WorkerLife(std::move(our_line));
  worker.socket = comm::WorkerChannel(std::move(ours));
  worker.log_begin = size_of_file(run.worker_log(start.id));
  worker.started = MonotonicClock::now();
  return worker;
}

CourierProcess start_courier(const run_directory::RunDirectory& run, const SharedDescriptors& shared) {
  run_directory::begin_terms(run.path());
  auto [ours, theirs] = comm::MessageSocket::pair();
  ChildOptions options;
  options.arguments = {own_executable(), "courier",
                       "--run",          run.path(),
                       "--memory",       number(shared.memory),
                       "--doorbell",     number(shared.courier),
                       "--socket",       number(theirs.descriptor())};
  options.same_program = true;
  options.inherited = {shared.memory, shared.courier, theirs.descriptor()};
  options.output = run.courier_log();
  options.ignored_signals = stop_signals();
  return {ChildProcess::start(options), std::move(ours)};
}

ScribeProcess start_scribe(const run_directory::RunDirectory& run, const SharedDescriptors& shared, int64_t from_step) {
  auto [ours, theirs] = comm::MessageSocket::pair();
  ChildOptions options;
  options.arguments = {own_executable(), "scribe",
                       "--run",          run.path(),
                       "--spec",         number(shared.spec),
                       "--memory",       number(shared.memory),
                       "--doorbell",     number(shared.doorbell),
                       "--lock",         number(shared.lock),
                       "--socket",       number(theirs.descriptor()),
                       "--from-step",    number(from_step)};
  options.same_program = true;
  options.inherited = {shared.spec, shared.memory, shared.doorbell, shared.lock, theirs.descriptor()};
  options.output = run.scribe_log();
  options.ignored_signals = stop_signals();
  options.dies_with_parent = false;  // the scribe saves the committed state if the launcher is killed
  const uint64_t log_begin = size_of_file(options.output);
  return {ChildProcess::start(options), record::ScribeChannel(std::move(ours)), MonotonicClock::now(), kNoTime,
          log_begin};
}

void ForkServers::begin(const Device& device, const spec::JobSection& job, const SharedDescriptors& shared,
                        bool in_background) {
  Environment environment = device_environment(device, job, own_environment());
  if (std::ranges::find(servers_, environment, &decltype(servers_)::value_type::first) != servers_.end()) return;
  ChildOptions options;
  options.arguments = {own_executable(), "fork-server",
                       "--spec",         std::to_string(shared.spec),
                       "--library",      std::to_string(shared.library)};
  if (device.is_gpu()) options.arguments.push_back("--cuda");
  options.inherited = {shared.spec};
  options.same_program = true;
  options.in_background = in_background;
  options.environment = environment;
  options.ignored_signals = stop_signals();
  if (shared.library >= 0) options.inherited.push_back(shared.library);
  // The libraries' words have no reader: if loading fails, workers start by exec and log the error.
  const UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  options.output_descriptor = nowhere.get();
  ForkServer server;
  try {
    server = ForkServer::start(std::move(options));
  } catch (const Error&) {  // no descriptor or process is left: the worker's own start will tell
  }
  servers_.emplace_back(std::move(environment), std::move(server));
}

ChildProcess ForkServers::start(const ChildOptions& worker, std::chrono::milliseconds patience) {
  const auto at = std::ranges::find(servers_, worker.environment, &decltype(servers_)::value_type::first);
  if (at != servers_.end() && at->second.wait_until_ready(patience)) {
    if (std::optional<ChildProcess> copy = at->second.fork(worker)) return std::move(*copy);
  }
  return ChildProcess::start(worker);
}

std::vector<ForkServers::KeptServer> ForkServers::notes() const {
  std::vector<KeptServer> notes;
  for (const auto& [environment, server] : servers_) {
    const std::optional<ForkServer::Note> note = server.note();
    if (!note) continue;
    KeptServer& added = notes.emplace_back(KeptServer{{}, *note});
    for (const auto& [name, value] : environment) added.environment.insert(added.environment.end(), {name, value});
  }
  return notes;
}

void ForkServers::adopt(const std::vector<KeptServer>& notes) {
  for (const KeptServer& note : notes) {
    Environment environment;
    for (size_t i = 0; i + 1 < note.environment.size(); i += 2)
      environment.emplace_back(note.environment[i], note.environment[i + 1]);
    servers_.emplace_back(std::move(environment), ForkServer::adopt(note.server));
  }
}

}  // namespace estrain::launch

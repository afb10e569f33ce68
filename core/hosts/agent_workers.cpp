#include "core/hosts/agent_workers.h"

#include <fcntl.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <utility>

#include "core/base/clock.h"
#include "core/job/placement/device.h"
#include "core/job/spec/parsing/parse.h"
#include "core/run/launch/preflight/devices.h"
#include "core/run/launch/preflight/start.h"
#include "core/state/comm/job_memory.h"
#include "core/state/run_directory/passed_spec.h"
#include "core/state/run_directory/worker_library.h"

namespace estrain::hosts {
namespace {

constexpr auto kPatienceWithKill = 1500ms;

// The stage of an order to run; 0: another order.
uint64_t stage_of_order(const comm::WorkerOrder& order) {
  const auto* run = std::get_if<comm::RunStage>(&order);
  return run != nullptr && run->beyond ? run->beyond->stage : 0;
}

launch::WorkerStart order_to_start(const StartRemoteWorker& asked, const spec::JobSpec& spec) {
  launch::WorkerStart start;
  start.id = asked.id;
  start.options = asked.options;
  const std::optional<placement::Device> device = placement::parse_device(start.options.device);
  if (!device) throw Error::make(Fault::usage, "\"{}\" is no device", start.options.device);
  launch::check_devices({*device}, {.mixed = true, .oversubscribed = true});
  start.device = *device;
  start.job = spec.job;
  return start;
}

// All workers of a run take the measured algorithms from a file of the run directory.
void require_own_algorithms(const placement::Device& device, const spec::JobSection& job) {
  if (!device.is_gpu() || job.kernels == spec::Kernels::portable || job.algorithms != spec::Algorithms::measured)
    return;
  throw Error(Fault::infeasible,
              "a host that does not see the run directory does not know the GPU algorithms of the run")
      .advise("set job.algorithms = \"torch\" or job.determinism = \"D2\", or share the run directory: agent --run");
}

}  // namespace

AgentWorkers::AgentWorkers(net::Loop& loop, const run_directory::RunDirectory& directory, std::string name,
                           bool sees_run, std::function<void(const Error&)> gone)
    : loop_(loop),
      directory_(directory),
      name_(std::move(name)),
      sees_run_(sees_run),
      gone_(std::move(gone)),
      library_(::open(run_directory::worker_library().c_str(), O_RDONLY | O_CLOEXEC)) {}

void AgentWorkers::begin_anew(int memory, int doorbell) {
  spec_ = {};
  opened_ = never_opened_ = 0;
  memory_ = memory;
  doorbell_ = doorbell;
  std::error_code ignored;  // outputs of workers that were killed; elsewhere the launcher removes them
  if (!sees_run_) std::filesystem::remove_all(directory_.rows(), ignored);
}

void AgentWorkers::take(net::ConnectionPtr relay) {
  sessions_.emplace_back();
  const At at = std::prev(sessions_.end());
  at->relay = std::make_unique<MessageLink<AgentMessage, RelayMessage>>(
      std::move(relay),
      [this, at](const RelayMessage& said) { std::visit([&](const auto& one) { on_relay(at, one); }, said); },
      [this, at](const Error&) { close(at); });
}

// All end side by side: this host says nothing to the others meanwhile.
void AgentWorkers::kill_all() {
  for (Session& session : sessions_)
    if (session.worker.process.running()) session.worker.process.signal(SIGKILL);
  for (At at = sessions_.begin(); at != sessions_.end(); ++at) close(at);
}

void AgentWorkers::on_relay(At at, const RelayedOrder& relayed) {
  const uint64_t stage = stage_of_order(relayed.order);
  if (stage == 0 || stage == opened_) {
    at->worker.socket.send(relayed.order);
    return;
  }
  at->order = relayed.order;
  if (stage == never_opened_) on_never_opened(stage);
}

void AgentWorkers::on_relay(At at, const StartRemoteWorker& asked) {
  try {
    if (const auto lost = lost_run_directory()) throw Error(*lost);
    start(at, asked);
  } catch (const Error& error) {
    at->relay->send(RelayedReport{comm::Failed(error)});
    at->relay->send(comm::RelayedEnd{.code = exit_code(error.fault())});
    if (const auto lost = lost_run_directory()) gone_(*lost);
  }
}

// A launcher is at work, so its lock file exists unless the file system is gone. A missing lock file is this host's
// trouble, not the job's: the host counts as lost.
std::optional<Error> AgentWorkers::lost_run_directory() const {
  std::error_code failure;
  if (!sees_run_ || std::filesystem::exists(directory_.lock_file(), failure)) return std::nullopt;
  return Error::make(Fault::peer, "host {} is lost: it does not see the run directory {} any more", name_,
                     directory_.path())
      .advise("mount it there again, and start the agent anew")
      .caused_by("host_lost");
}

void AgentWorkers::start(At at, const StartRemoteWorker& asked) {
  const spec::JobSpec spec = spec::parse_text(asked.spec, "the job's spec");
  if (!spec_) spec_ = run_directory::pass_spec(spec);
  launch::WorkerStart start = order_to_start(asked, spec);
  if (!sees_run_) require_own_algorithms(start.device, spec.job);
  if (sessions_.size() == 1) wanted_.clear();
  wanted_.push_back(start.options.device);
  allow_mixed_ = start.options.allow_mixed;
  const bool stands = comm::JobMemory(memory_).is_ready();
  at->builds = start.options.builds = !stands && std::ranges::none_of(sessions_, &Session::builds);
  launch::SharedDescriptors descriptors = shared();
  descriptors.courier = doorbell_;
  launch::QuickStart quick;  // by a fork server that is ready: the agent waits for no server
  if (launch::starts_by_fork(start.device, spec)) {
    fork_servers_.begin(start.device, spec.job, descriptors, start.in_background);
    quick.servers = &fork_servers_;
  }
  at->worker = launch::start_worker(directory_, descriptors, start, quick);
  watch(at);
}

void AgentWorkers::watch(At at) {
  at->socket = loop_.watch(at->worker.socket.descriptor(), [this, at] { on_worker(*at); });
  at->process = loop_.watch(at->worker.process.descriptor(), [this, at] { on_worker_end(at); });
}

void AgentWorkers::on_worker(Session& session) {
  comm::WorkerReport said;
  while (session.worker.socket) {
    const comm::Received received = session.worker.socket.receive(&said, 0ms);
    if (received == comm::Received::nothing) return;
    if (received == comm::Received::closed) {
      session.socket.reset();  // the end of the worker follows
      return;
    }
    const auto lost = std::holds_alternative<comm::Failed>(said) ? lost_run_directory() : std::nullopt;
    session.relay->send(RelayedReport{lost ? comm::Failed(*lost) : said});
    if (lost) gone_(*lost);
  }
}

void AgentWorkers::on_worker_end(At at) {
  ChildEnd ended;
  if (!at->worker.process.wait_for(0ms, &ended)) return;  // never waits for a living worker
  on_worker(*at);
  at->socket.reset();
  at->process.reset();
  at->builds = false;
  at->relay->send(comm::RelayedEnd{ended.signaled, ended.code, ended.peak_memory_bytes});
}

// The connection has ended, with the worker or before the worker: for the launcher, the worker has ended.
void AgentWorkers::close(At at) {
  if (std::exchange(at->closed, true)) return;
  at->socket.reset();
  at->process.reset();
  if (at->worker.process.running()) {
    at->worker.process.signal(SIGKILL);
    at->worker.process.wait_for(kPatienceWithKill);
  }
  loop_.post([this, at] { sessions_.erase(at); });
}

void AgentWorkers::on_opened(uint64_t stage) {
  opened_ = stage;
  for (Session& session : sessions_) {
    if (!session.order || stage_of_order(*session.order) != stage) continue;
    session.worker.socket.send(*std::exchange(session.order, std::nullopt));
  }
}

void AgentWorkers::on_never_opened(uint64_t stage) {
  never_opened_ = stage;
  for (Session& session : sessions_) {
    if (!session.order || stage_of_order(*session.order) != stage) continue;
    session.order.reset();
    session.relay->send(RelayedReport{comm::LeftStage{}});
  }
}

std::string AgentWorkers::wanted_devices() const { return placement::list_of(placement::devices_from(wanted_)); }

HostPlan AgentWorkers::alone() const {
  HostPlan plan;
  plan.allow_mixed = allow_mixed_;
  plan.grace_seconds = launch::StartRequest().grace_seconds;
  return plan;
}

}  // namespace estrain::hosts

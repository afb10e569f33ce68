#include "core/hosts/agent_workers.h"

#include <fcntl.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "core/comm/job_memory.h"
#include "core/launch/directory/passed_spec.h"
#include "core/launch/directory/worker_library.h"
#include "core/launch/preflight/devices.h"
#include "core/launch/preflight/start.h"
#include "core/place/device.h"
#include "core/spec/parsing/parse.h"

namespace estrain::hosts {
namespace {

constexpr int kPatienceWithKillMs = 1500;

Json words_of(const Error& error) { return codec::encode(comm::WorkerReport(comm::Failed(error))); }

// The stage of an order to run; 0: another order.
uint64_t stage_of_order(const Json& order) {
  const Json beyond = order.value("beyond", Json::object());
  return order.value("is", "") == comm::RunStage::name ? beyond.value("stage", uint64_t{0}) : 0;
}

launch::WorkerStart order_to_start(const Json& said, const spec::JobSpec& spec) {
  launch::WorkerStart start;
  start.id = said.value("id", INT64_C(0));
  codec::from_field(said.at("options"), start.options);
  const std::optional<place::Device> device = place::parse_device(start.options.device);
  if (!device) throw Error::make(Fault::usage, "\"{}\" is no device", start.options.device);
  launch::check_devices({*device}, {.mixed = true, .oversubscribed = true});
  start.device = *device;
  start.job = spec.job;
  return start;
}

// All workers of a run take the measured ones from a file of the run directory.
void require_own_algorithms(const place::Device& device, const spec::JobSection& job) {
  if (!device.is_gpu() || job.kernels == spec::Kernels::portable || job.algorithms != spec::Algorithms::measured)
    return;
  throw Error(Fault::infeasible,
              "a host that does not see the run directory does not know the GPU algorithms of the run")
      .advise("set job.algorithms = \"torch\" or job.determinism = \"D2\", or share the run directory: agent --run");
}

}  // namespace

AgentWorkers::AgentWorkers(net::Loop& loop, const launch::RunDirectory& directory, bool sees_run)
    : loop_(loop),
      directory_(directory),
      sees_run_(sees_run),
      library_(::open(launch::worker_library().c_str(), O_RDONLY | O_CLOEXEC)) {}

void AgentWorkers::begin_anew(int memory, int doorbell) {
  spec_ = {};
  opened_ = never_opened_ = 0;
  memory_ = memory;
  doorbell_ = doorbell;
}

void AgentWorkers::take(net::ConnectionPtr proxy) {
  sessions_.emplace_back();
  const At at = std::prev(sessions_.end());
  at->proxy = std::make_unique<MessageLink>(
      std::move(proxy), [this, at](const Json& said) { on_proxy(at, said); }, [this, at](const Error&) { close(at); });
}

void AgentWorkers::kill_all() {
  for (At at = sessions_.begin(); at != sessions_.end(); ++at) close(at);
}

void AgentWorkers::on_proxy(At at, const Json& said) {
  try {
    if (said.value("do", "") == "start") return start(at, said);
  } catch (const Error& error) {
    at->proxy->send({{"relay", words_of(error)}});
    at->proxy->send({{"ended", {{"code", exit_code(error.fault())}}}});
    return;
  }
  if (!said.contains("relay")) return;
  const Json& order = said.at("relay");
  const uint64_t stage = stage_of_order(order);
  if (stage == 0 || stage == opened_) {
    at->worker.socket.send(codec::decode<comm::WorkerOrder>(order));
    return;
  }
  at->order = order;
  if (stage == never_opened_) on_never_opened(stage);
}

void AgentWorkers::start(At at, const Json& said) {
  const spec::JobSpec spec = spec::parse_text(said.value("spec", ""), "the job's spec");
  if (!spec_) spec_ = launch::pass_spec(spec);
  launch::WorkerStart start = order_to_start(said, spec);
  if (!sees_run_) require_own_algorithms(start.device, spec.job);
  if (sessions_.size() == 1) wanted_.clear();
  wanted_.push_back(start.options.device);
  allow_mixed_ = start.options.allow_mixed;
  const bool stands = comm::JobMemory(memory_).is_ready();
  at->builds = start.options.builds = !stands && std::ranges::none_of(sessions_, &Session::builds);
  launch::SharedDescriptors descriptors = shared();
  descriptors.courier = doorbell_;
  launch::QuickStart quick;  // by a server that is ready: the agent waits for none
  if (launch::starts_by_fork(start.device, spec)) {
    fork_servers_.begin(start.device, spec.job, descriptors);
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
    const comm::Received received = session.worker.socket.receive(&said, 0);
    if (received == comm::Received::nothing) return;
    if (received == comm::Received::closed) {
      session.socket.reset();  // its end follows
      return;
    }
    session.proxy->send({{"relay", codec::encode(said)}});
  }
}

void AgentWorkers::on_worker_end(At at) {
  on_worker(*at);
  at->socket.reset();
  at->process.reset();
  at->builds = false;
  const ChildEnd ended = at->worker.process.wait();
  at->proxy->send(
      {{"ended",
        {{"signaled", ended.signaled}, {"code", ended.code}, {"peak_memory_bytes", ended.peak_memory_bytes}}}});
}

// The proxy has ended, as the worker did or before it: the launcher takes the worker for ended.
void AgentWorkers::close(At at) {
  if (std::exchange(at->closed, true)) return;
  at->socket.reset();
  at->process.reset();
  if (at->worker.process.running()) {
    at->worker.process.signal(SIGKILL);
    at->worker.process.wait_for(kPatienceWithKillMs);
  }
  loop_.post([this, at] { sessions_.erase(at); });
}

void AgentWorkers::on_opened(uint64_t stage) {
  opened_ = stage;
  for (Session& session : sessions_) {
    if (!session.order || stage_of_order(*session.order) != stage) continue;
    session.worker.socket.send(codec::decode<comm::WorkerOrder>(*std::exchange(session.order, std::nullopt)));
  }
}

void AgentWorkers::on_never_opened(uint64_t stage) {
  never_opened_ = stage;
  for (Session& session : sessions_) {
    if (!session.order || stage_of_order(*session.order) != stage) continue;
    session.order.reset();
    session.proxy->send({{"relay", codec::encode(comm::WorkerReport(comm::LeftStage{}))}});
  }
}

std::string AgentWorkers::wanted_devices() const { return place::list_of(place::devices_from(wanted_)); }

HostPlan AgentWorkers::alone() const {
  HostPlan plan;
  plan.allow_mixed = allow_mixed_;
  plan.grace_seconds = launch::StartRequest().grace_seconds;
  return plan;
}

}  // namespace estrain::hosts

// The launcher's part in a job over several hosts. Workers elsewhere are processes and sockets here like all others,
// since proxies stand in for them; what workers exchange goes through the courier (core/hosts/setup.h).

#include <algorithm>
#include <csignal>

#include "core/launch/launcher.h"

namespace estrain::launch {
namespace {

constexpr int kPatienceWithCourierMs = 2000;

}  // namespace

std::vector<std::string> Launcher::hosts_in_force() const { return other_hosts(devices_in_force(job_)); }

// The hosts of the stage with the ranges of their workers, the launcher's own first: workers are in that order.
Json Launcher::plan_of_hosts() const {
  Json hosts = Json::array();
  std::string last = "none";
  for (const conduct::Member& worker : job_.workers) {
    const std::string host = host_of(worker.device.kind);
    if (host != last) hosts.push_back({{"name", host}, {"address", ""}, {"workers", Json::array()}});
    last = host;
    hosts.back()["workers"].push_back({worker.ests.begin.value, worker.ests.end.value});
  }
  const bool any_processor = state_.allow_mixed || spec_.job.determinism == spec::Determinism::d2;
  return {{"stage", state_.hosts_stage},    {"step", trained()}, {"evaluation_batch", spec_.train.eval_batch},
          {"any_processor", any_processor}, {"own", 0},          {"hosts", hosts}};
}

// Before the workers are told to begin.
void Launcher::begin_stage_on_hosts() {
  ++state_.hosts_stage;
  if (hosts_in_force().empty()) return;
  if (!state_.courier) state_.courier = start_courier(directory_, state_.shared);
  state_.courier->socket.send({{"do", "stage"}, {"plan", plan_of_hosts()}});
}

// What one worker is told: of its own host's workers, and what there is beyond.
Json Launcher::order_of(size_t index) const {
  const std::string host = host_of(job_.workers[index].device.kind);
  Json ranges = Json::array();
  size_t first = job_.workers.size();
  for (size_t i = 0; i < job_.workers.size(); ++i) {
    if (host_of(job_.workers[i].device.kind) != host) continue;
    first = std::min(first, i);
    ranges.push_back({job_.workers[i].ests.begin.value, job_.workers[i].ests.end.value});
  }
  Json order = {{"do", "run"}, {"index", index - first}, {"ranges", ranges}};
  if (hosts_in_force().empty()) return order;
  order["stage"] = state_.hosts_stage;
  order["beyond"] = {{"first_worker", first}, {"workers", job_.workers.size()}, {"records", host.empty()}};
  return order;
}

void Launcher::on_courier_message() {
  Json said;
  const auto received = state_.courier->socket.receive(&said, 0);
  if (received == comm::MessageSocket::Received::nothing) return;
  if (received == comm::MessageSocket::Received::closed) {
    ChildEnd ended;
    state_.courier->process.wait_for(kPatienceWithKillMs, &ended);
    state_.courier.reset();
    return decide(conduct::HostsFailed{
        Error::make(Fault::peer, "the courier, which talks to the other hosts, ended with {}", ended.text())
            .advise("log: " + directory_.courier_log())});
  }
  const std::string say = said.value("say", ""), host = said.value("host", "");
  if (say == "host_lost") return lose_host(host, said.value("why", ""));
  if (say != "error") return;
  decide(conduct::HostsFailed{
      Error(static_cast<Fault>(said.value("fault", static_cast<int>(Fault::bug))), said.value("message", ""))
          .advise(said.value("advice", ""))});
}

// Each of its workers is lost: its proxy says so, and ends.
void Launcher::lose_host(const std::string& host, const std::string& why) {
  bool known = false;
  for (const conduct::Member* member : all_members(job_)) {
    WorkerProcess* proxy = process_of(member->id);
    if (proxy == nullptr || host.empty() || host_of(member->device.kind) != host) continue;
    proxy->socket.send({{"do", "lost"}, {"why", why}});
    known = true;
  }
  if (known) directory_.log_event("host_lost", {{"step", trained()}, {"host", host}, {"why", why}});
}

void Launcher::end_courier() {
  if (!state_.courier) return;
  CourierProcess& courier = *state_.courier;
  courier.socket.send({{"do", "finish"}});
  if (courier.process.running() && !courier.process.wait_for(kPatienceWithCourierMs)) {
    courier.process.signal(SIGKILL);
    courier.process.wait_for(kPatienceWithKillMs);
  }
  state_.courier.reset();
}

}  // namespace estrain::launch

#include "core/run/launch/launcher/parts/hosts.h"

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "core/base/clock.h"
#include "core/base/files/run_files.h"
#include "core/state/run_directory/term.h"

namespace estrain::launch {
namespace {

constexpr auto kPatienceWithCourier = 2s;
constexpr auto kPatienceWithFirstCourier = 10s;  // which begins, and waits for agents
constexpr Nanoseconds kBetweenLooks = 1s;

bool has_agents(const std::string& run) {
  std::error_code failure;
  return std::filesystem::directory_iterator(RunFiles(run).hosts(), failure) != std::filesystem::directory_iterator();
}

}  // namespace

std::vector<std::string> Hosts::others() const { return other_hosts(devices_of(devices_in_force(run_.job)), own()); }

std::optional<SumOverHosts> Hosts::sums() const {
  if (others().empty()) return std::nullopt;
  return sum_over_hosts(run_.spec, devices_of(devices_in_force(run_.job)));
}

bool Hosts::may_send_factors() const {
  return launch::may_send_factors(run_.spec, devices_of(devices_in_force(run_.job)));
}

// Returns the hosts of the stage and the ranges of their workers, the launcher's own host first, as in rank order.
Json Hosts::plan() const {
  Json hosts = Json::array(), devices = Json::array();
  for (size_t i = 0; i < run_.job.workers.size(); ++i) {
    const decisions::Member& worker = run_.job.workers[i];
    if (i == 0 || worker.device.host != run_.job.workers[i - 1].device.host)
      hosts.push_back({{"name", worker.device.host == own() ? "" : worker.device.host},
                       {"address", ""},
                       {"sees_run", true},
                       {"workers", Json::array()}});
    hosts.back()["workers"].push_back({worker.ests.begin.value, worker.ests.end.value});
    devices.push_back(worker.device.text());
  }
  const bool any_processor = run_.options.allow_mixed || run_.spec.job.determinism == spec::Determinism::d2;
  return {{"stage", links_.stage},
          {"devices", devices},
          {"allow_mixed", run_.options.allow_mixed},
          {"oversubscribe", run_.options.oversubscribe},
          {"grace_seconds", run_.job.grace_seconds},
          {"step", run_.trained()},
          {"evaluation_batch", run_.spec.train.eval_batch},
          {"any_processor", any_processor},
          {"clear", run_.spec.network.secrecy == spec::Secrecy::control},
          {"own", 0},
          {"gpus_sum", sums() == SumOverHosts::by_gpus},
          {"factors", may_send_factors()},
          {"all_factors", run_.spec.network.factors == spec::SendFactors::always},
          {"hosts", hosts}};
}

void Hosts::begin_stage() {
  ++links_.stage;
  const std::string& path = run_.journal.directory.path();
  const auto term = run_directory::read_term(path);
  if (others().empty()) {  // the stage has no other host, so no host may take over from an earlier stage
    if (term) run_directory::write_term(path, {term->term, links_.stage});
    return;
  }
  if (!processes_.courier) processes_.courier = start_courier(run_.journal.directory, processes_.shared);
  tell_courier({{"do", "stage"}, {"plan", plan()}});
}

void Hosts::tell_courier(Json order) {
  order["interface"] = run_.spec.network.interface;
  order["listen"] = run_.options.listen;
  order["own"] = own();
  processes_.courier->socket.send(order);
}

void Hosts::serve_agents() {
  const MonotonicTime now = MonotonicClock::now();
  if (processes_.courier || now < looks_next_) return;
  looks_next_ = now + kBetweenLooks;
  if (run_.options.listen.empty() && !has_agents(run_.journal.directory.path())) return;
  processes_.courier = start_courier(run_.journal.directory, processes_.shared);
  tell_courier({{"do", "serve"}});
}

void Hosts::place(size_t index, comm::RunStage& order) const {
  const std::vector<decisions::Member>& workers = run_.job.workers;
  const std::string& host = workers[index].device.host;
  size_t first = workers.size();
  order.ranges.clear();
  order.kinds.clear();
  for (size_t i = 0; i < workers.size(); ++i) {
    if (workers[i].device.host != host) continue;
    first = std::min(first, i);
    order.ranges.push_back(workers[i].ests);
    order.kinds.push_back(workers[i].device.kind);
  }
  order.worker = WorkerRank(static_cast<int64_t>(index - first));
  order.beyond.reset();
  if (others().empty()) return;
  order.beyond =
      comm::BeyondHost{links_.stage, static_cast<int64_t>(first), static_cast<int64_t>(workers.size()), host == own()};
  order.beyond->factors = may_send_factors();
  for (size_t i = 0; i < workers.size() && order.exchanges; ++i) {
    if (i == 0 || workers[i].device.host != workers[i - 1].device.host) order.beyond->host_workers.push_back(0);
    ++order.beyond->host_workers.back();
    order.beyond->ranges.push_back(workers[i].ests);
  }
}

std::optional<decisions::Event> Hosts::hear() {
  Json said;
  const comm::Received received = processes_.courier->socket.receive(&said, 0ms);
  if (received == comm::Received::nothing) return std::nullopt;
  if (received == comm::Received::closed) return note_end();
  const std::string say = said.value("say", ""), host = said.value("host", "");
  if (say == "link" || say == "pace") note_link(host, said);
  if (say == "received_state") note_state(host, said);
  if (say == "factors")
    run_.journal.log("factors", {{"parameters", said.at("parameters")},
                                 {"gradient_bytes", said.at("gradient_bytes")},
                                 {"bytes", said.at("bytes")},
                                 {"without_factors", said.at("without_factors")},
                                 {"too_large", said.at("too_large")},
                                 {"too_slow", said.at("too_slow")}});
  if (say == "host_lost") lose(host, said.value("why", ""));
  if (say != "error") return std::nullopt;
  left_to_others_ |= said.value("gives_up", false);
  comm::Failed failed;
  codec::from_field(said, failed);
  return decisions::CannotGoOn{failed.error()};
}

std::optional<decisions::Event> Hosts::note_end() {
  ChildEnd ended;
  processes_.courier->process.wait_for(kPatienceWithKill, &ended);
  processes_.courier.reset();
  if (others().empty()) {  // the courier only served commands
    looks_next_ = MonotonicClock::now() + 10 * kBetweenLooks;
    return std::nullopt;
  }
  return decisions::CannotGoOn{
      Error::make(Fault::peer, "the courier, which talks to the other hosts, ended with {}", ended.text())
          .advise("log: " + run_.journal.directory.courier_log())};
}

void Hosts::note_link(const std::string& host, Json said) {
  said.erase("say");
  said.erase("host");
  Json& known = links_.said[host];
  if (!known.is_object()) known = Json::object();
  known.update(said);
}

void Hosts::note_state(const std::string& host, const Json& said) const {
  const Json told = said.value("shares", Json::object());
  Json bytes = Json::object();
  for (const auto& [sender, count] : told.items()) bytes[sender.empty() ? own() : sender] = count;
  run_.journal.log("state_received", {{"step", said.value("step", INT64_C(0))}, {"host", host}, {"bytes", bytes}});
}

// Reports a host as lost. The relay then reports the loss of each worker on the host.
void Hosts::lose(const std::string& host, const std::string& why) {
  bool is_new = false;
  for (const decisions::Member* member : all_members(run_.job)) {
    WorkerProcess* worker = process_of(processes_.workers, member->id);
    if (worker == nullptr || host == own() || member->device.host != host) continue;
    is_new |= tell_host_lost(*worker, why);
  }
  if (is_new) run_.journal.log("host_lost", {{"step", run_.trained()}, {"host", host}, {"why", why}});
}

// Agents that have joined by this launcher's address wait for a courier there, if the run ends before its first stage.
bool Hosts::reach_joined_agents() {
  if (processes_.courier || run_.options.listen.empty() || !has_agents(run_.journal.directory.path())) return false;
  try {
    processes_.courier = start_courier(run_.journal.directory, processes_.shared);
    tell_courier({{"do", "serve"}});
  } catch (const Error&) {  // the agents end by their own patience
  }
  return processes_.courier.has_value();
}

void Hosts::end(bool goes_on) {
  if (auto& relay = processes_.relay) {
    relay->socket.reset();
    relay->process.wait_for(kPatienceWithKill);
    relay.reset();
  }
  const bool is_for_agents = !goes_on && !left_to_others_ && reach_joined_agents();
  if (!processes_.courier) return;
  CourierProcess& courier = *processes_.courier;
  courier.socket.send({{"do", "finish"}, {"goes_on", goes_on}});
  if (courier.process.running() &&
      !courier.process.wait_for(is_for_agents ? kPatienceWithFirstCourier : kPatienceWithCourier)) {
    courier.process.signal(SIGKILL);
    courier.process.wait_for(kPatienceWithKill);
  }
  processes_.courier.reset();
}

}  // namespace estrain::launch

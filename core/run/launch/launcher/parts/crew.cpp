#include "core/run/launch/launcher/parts/crew.h"

#include <algorithm>
#include <csignal>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "core/base/json/json_lines.h"
#include "core/base/process/memory_use.h"
#include "core/run/launch/preflight/machine.h"
#include "core/state/comm/stage_control.h"

namespace estrain::launch {

using decisions::RunPhase;
using decisions::WorkerId;

namespace {

constexpr auto kPatienceWithWorkers = 5s;
// For a fork server to load its libraries: while no worker trains, and while other workers train.
constexpr auto kPatienceAtStart = 10s;
constexpr auto kPatienceWithServer = 2s;

}  // namespace

void Crew::start_first(const Assignment& devices, decisions::RunState& job) {
  const std::vector<EstRange> ranges = placement::place_ests(devices, run_.spec.job.ests);
  job.held = devices_of(devices);
  begin_servers(devices_of(devices));
  for (size_t i = 0; i < devices.size(); ++i) {
    const WorkerId id(job.workers_started++);
    start_one({id, devices[i].device, i == 0}, true, kPatienceAtStart);
    job.workers.push_back({.id = id, .device = devices[i].device, .ests = ranges[i]});
  }
}

std::optional<decisions::Event> Crew::start(const decisions::StartWorkers& start) {
  const bool is_built = run_.memory.is_built();
  Devices devices;
  for (const decisions::WorkerOrder& order : start.workers) devices.push_back(order.device);
  begin_servers(devices);
  for (size_t i = 0; i < start.workers.size(); ++i) {
    try {
      start_one(start.workers[i], !is_built, kPatienceWithServer);
    } catch (const Error& error) {
      decisions::CannotStart failed{{}, {}, error};
      for (; i < start.workers.size(); ++i) failed.workers.push_back(start.workers[i].id);
      // A failed change that was only wished for is told to the client: no fault of the run.
      if (run_.job.phase != RunPhase::warming) failed.verdict = losses_.diagnose(Json(), error);
      return failed;
    }
  }
  return std::nullopt;
}

bool Crew::starts_by_fork_here(const Device& device) const {
  return device.host == run_.options.own_host && starts_by_fork(device, run_.spec);
}

// All load side by side.
void Crew::begin_servers(const Devices& devices) {
  for (const Device& device : devices)
    if (starts_by_fork_here(device))
      processes_.fork_servers.begin(device, run_.spec.job, processes_.shared, run_.options.background);
}

void Crew::start_one(const decisions::WorkerOrder& order, bool to_be_built, std::chrono::milliseconds patience) {
  WorkerStart start = worker_start(order.device);
  start.id = order.id.value;
  if (to_be_built && order.first) make_builder(start);
  const run_directory::RunDirectory& directory = run_.journal.directory;
  if (order.device.host != run_.options.own_host) {
    processes_.workers.emplace(order.id, start_remote_worker(directory, processes_, start));
    return;
  }
  QuickStart quick;
  if (starts_by_fork_here(order.device)) quick = {&processes_.fork_servers, patience};
  processes_.workers.emplace(order.id, start_worker(directory, processes_.shared, start, quick));
}

// Returns the order for any worker on this device, still without its number.
WorkerStart Crew::worker_start(const Device& device) const {
  WorkerStart start;
  start.device = device;
  start.in_background = run_.options.background;
  start.job = run_.spec.job;
  start.options.device = Device{device.kind, device.index}.text();
  start.options.less_memory = run_.job.less_memory;
  start.options.allow_mixed = run_.options.allow_mixed || run_.spec.job.determinism == spec::Determinism::d2;
  start.options.cuda_streams = run_.options.cuda_streams;
  return start;
}

void Crew::make_builder(WorkerStart& start) const {
  start.options.builds = true;
  start.options.checkpoint = run_.origin.checkpoint;
  start.options.accepts_data = run_.origin.accepts_data;
}

std::optional<decisions::Event> Crew::hear(WorkerId id) {
  WorkerProcess* worker = process_of(processes_.workers, id);
  if (worker == nullptr) return std::nullopt;
  comm::WorkerReport report;
  switch (worker->socket.receive(&report, 0ms)) {
    case comm::Received::nothing:
      return std::nullopt;
    case comm::Received::closed:
      return note_end(id);
    case comm::Received::message:
      break;
  }
  if (const auto* left = std::get_if<comm::LeftStage>(&report)) return decisions::WorkerLeft{id, left->finished};
  if (const auto* failed = std::get_if<comm::Failed>(&report)) return lose_by_error(id, *failed);
  if (const auto* found = std::get_if<comm::AuditFound>(&report)) {
    losses_.note_found(id, found->vouched);
    return std::nullopt;
  }
  if (const auto* found = std::get_if<comm::LeftOutSample>(&report)) return leave_out(id, *found);
  if (const auto* prepared = std::get_if<comm::ExchangeReport>(&report))
    return decisions::ExchangePrepared{id, prepared->ticket, prepared->made};
  note_data(std::get<comm::Ready>(report));
  return decisions::WorkerReady{id};
}

// Once: a later worker may build the state again.
void Crew::note_data(const comm::Ready& ready) {
  for (const std::string& note : ready.notes)
    if (data_notes_.insert(note).second) run_.journal.note(note);
}

// A sample too many: the worker is lost by the sample's error, as if the sample had not been left out.
std::optional<decisions::Event> Crew::leave_out(WorkerId id, const comm::LeftOutSample& found) {
  const std::optional<Error> too_many = left_out_.note(found);
  if (!too_many) return std::nullopt;
  if (WorkerProcess* worker = process_of(processes_.workers, id)) worker->process.signal(SIGKILL);
  return lose_by_error(id, comm::Failed(*too_many));
}

std::optional<decisions::Event> Crew::lose_by_error(WorkerId id, const comm::Failed& failed) {
  faults::Evidence evidence;
  evidence.said = failed.error();
  return losses_.lose(id, std::move(evidence));
}

std::optional<decisions::Event> Crew::note_end(WorkerId id) {
  WorkerProcess* worker = process_of(processes_.workers, id);
  if (worker == nullptr) return std::nullopt;
  comm::WorkerReport last_words;
  while (worker->socket && worker->socket.receive(&last_words, 0ms) == comm::Received::message) {
    if (const auto* failed = std::get_if<comm::Failed>(&last_words)) return lose_by_error(id, *failed);
    if (const auto* found = std::get_if<comm::AuditFound>(&last_words)) losses_.note_found(id, found->vouched);
    if (const auto* found = std::get_if<comm::LeftOutSample>(&last_words)) (void)left_out_.note(*found);
  }
  return losses_.lose(id, faults::Evidence{});
}

std::optional<decisions::Event> Crew::end_hung(const decisions::EndHungWorker& end) {
  if (WorkerProcess* worker = process_of(processes_.workers, end.worker)) worker->process.signal(SIGKILL);
  faults::Evidence evidence;
  evidence.hung = true;
  evidence.hung_how = end.how;
  return losses_.lose(end.worker, std::move(evidence));
}

// Kills a worker. A worker held by the kernel may end later, and is then waited for like any other.
std::optional<decisions::Event> Crew::kill(const decisions::KillWorker& kill) {
  WorkerProcess* worker = process_of(processes_.workers, kill.worker);
  if (worker == nullptr) return std::nullopt;
  worker->process.signal(SIGKILL);
  if (!kill.waits || !worker->process.wait_for(kPatienceWithWorkers)) return std::nullopt;
  processes_.workers.erase(kill.worker);
  return decisions::WorkerEnded{kill.worker};
}

void Crew::tell_leave(WorkerId id) {
  if (WorkerProcess* worker = process_of(processes_.workers, id)) worker->socket.send(comm::Leave{});
}

void Crew::dismiss_all() {
  for (auto& [id, worker] : processes_.workers) worker.socket.send(comm::Leave{});
  for (auto& [id, worker] : processes_.workers) {
    if (!worker.process.running() || worker.process.wait_for(kPatienceWithWorkers)) continue;
    worker.process.signal(SIGKILL);
    worker.process.wait_for(kPatienceWithWorkers);
  }
}

void Crew::kill_all() {
  if (run_.memory) comm::StageControl(*run_.memory).abort();
  for (auto& [id, worker] : processes_.workers) {
    if (worker.process.running()) worker.process.signal(SIGKILL);
  }
  for (auto& [id, worker] : processes_.workers) {
    if (worker.process.running()) worker.process.wait_for(kPatienceWithWorkers);
    worker.socket.close();
  }
}

WorkerRoom Crew::room() const {
  uint64_t each = 1;
  for (const auto& [id, worker] : processes_.workers) {
    const auto status = read_file_if_present(fmt::format("/proc/{}/status", worker.process.pid()));
    each = std::max(each, proc_bytes(status.value_or(""), "RssAnon").value_or(0));
  }
  const AvailableMemory free = available_memory(Machine::here(run_.journal.directory.path()));
  const auto workers = static_cast<int64_t>(std::min<uint64_t>(free.bytes / each, 1 << 20));
  return {workers, fmt::format("a worker takes {} of memory, {} are {}", format_bytes(each), format_bytes(free.bytes),
                               free.from)};
}

std::optional<Error> LeftOutSamples::note(const comm::LeftOutSample& found) {
  if (!list_) read_events();
  const Sample sample{found.set, found.sample};
  if (list_->contains(sample)) return std::nullopt;
  const int64_t most = run_.spec.data.skip_bad;
  if (std::ssize(*list_) >= most) {
    return Error::make(Fault::corrupt, "{}: {} samples are left out already, and data.skip_bad = {}", found.why,
                       list_->size(), most)
        .advise(fmt::format("mend or remove the files (events.jsonl lists them), or let more be left out, with "
                            "`estrain train --resume --set data.skip_bad={}`",
                            most * 2));
  }
  list_->insert(sample);
  run_.journal.log("left_out",
                   {{"step", run_.trained()}, {"set", found.set}, {"sample", found.sample}, {"why", found.why}});
  run_.journal.note(fmt::format("data: left out, {} of {}: {}", list_->size(), most, found.why));
  return std::nullopt;
}

void LeftOutSamples::read_events() {
  list_.emplace();
  for_each_object(run_.journal.directory.events(), [&](const Json& event) {
    if (event.value("event", "") == "left_out")
      list_->insert({event.value("set", ""), event.value("sample", int64_t{-1})});
  });
}

}  // namespace estrain::launch

#include "core/run/launch/launcher/processes/handover.h"

#include <fcntl.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/files/memory_file.h"
#include "core/base/json/fields.h"

namespace estrain::launch {
namespace {

using decisions::Member;
using decisions::WorkerId;

// A child process and its socket.
struct ProcessNote {
  WorkerId id;  // of a worker
  int pid = 0;
  int socket = -1;
  uint64_t log_begin = 0;
  int line = -1;  // the life line of a worker on another host, which has no process here

  ESTRAIN_FIELDS(id, pid, socket, log_begin, line)
};

struct ClientNote {
  ClientId id = 0;
  int socket = -1;

  ESTRAIN_FIELDS(id, socket)
};

// The processes and clients of a handover, written beside the handover's own fields.
struct Notes {
  std::vector<ProcessNote> workers;
  ProcessNote scribe;
  std::optional<ProcessNote> courier, relay;
  std::vector<ClientNote> clients;
  std::vector<ForkServers::KeptServer> fork_servers;

  ESTRAIN_FIELDS(workers, scribe, courier, relay, clients, fork_servers)
};

// Returns the processes of the members.
Notes notes_of(const Handover& handover) {
  Notes notes;
  for (const auto& [id, worker] : handover.processes.workers)
    notes.workers.push_back(
        {id, worker.process.pid(), worker.socket.descriptor(), worker.log_begin, worker.process.line()});
  const ScribeProcess& scribe = handover.processes.scribe;
  notes.scribe = {{}, scribe.process.pid(), scribe.socket.descriptor(), scribe.log_begin};
  if (const auto& courier = handover.processes.courier)
    notes.courier = ProcessNote{{}, courier->process.pid(), courier->socket.descriptor(), 0};
  if (const auto& relay = handover.processes.relay)
    notes.relay = ProcessNote{{}, relay->process.pid(), relay->socket.get(), 0};
  for (const auto& [id, socket] : handover.clients) notes.clients.push_back({id, socket});
  notes.fork_servers = handover.processes.fork_servers.notes();
  return notes;
}

void adopt(const Notes& notes, Handover& handover) {
  for (const ProcessNote& note : notes.workers) {
    WorkerProcess& worker = handover.processes.workers[note.id];
    worker.process = note.line >= 0 ? WorkerLife(comm::MessageSocket(UniqueFd(note.line)))
                                    : WorkerLife(ChildProcess::adopt(note.pid));
    worker.socket = comm::WorkerChannel(comm::MessageSocket(UniqueFd(note.socket)));
    worker.log_begin = note.log_begin;
    worker.started = MonotonicClock::now();
  }
  handover.processes.scribe = {ChildProcess::adopt(notes.scribe.pid),
                               record::ScribeChannel(comm::MessageSocket(UniqueFd(notes.scribe.socket))),
                               MonotonicClock::now(), kNoTime, notes.scribe.log_begin};
  if (notes.courier)
    handover.processes.courier = {ChildProcess::adopt(notes.courier->pid),
                                  comm::MessageSocket(UniqueFd(notes.courier->socket))};
  if (notes.relay)
    handover.processes.relay = {ChildProcess::adopt(notes.relay->pid), UniqueFd(notes.relay->socket), {}};
  for (const ClientNote& client : notes.clients) handover.clients[client.id] = client.socket;
  handover.processes.fork_servers.adopt(notes.fork_servers);
}

// Drops members without a process: places waiting for a worker.
void drop_empty_places(decisions::RunState& job, const Workers& workers) {
  for (std::vector<Member>* list : {&job.workers, &job.leaving})
    std::erase_if(*list, [&](const Member& member) { return !workers.contains(member.id); });
}

void set_inherited(const std::vector<int>& descriptors, bool inherited) {
  for (int fd : descriptors) ::fcntl(fd, F_SETFD, inherited ? 0 : FD_CLOEXEC);
}

std::vector<int> descriptors_of(const Handover& handover, const Notes& notes) {
  const SharedDescriptors& shared = handover.processes.shared;
  std::vector<int> all = {shared.memory,  shared.doorbell,   shared.lock,         shared.spec,
                          shared.library, handover.listener, notes.scribe.socket, shared.courier};
  if (notes.courier) all.push_back(notes.courier->socket);
  if (notes.relay) all.push_back(notes.relay->socket);
  for (const ClientNote& client : notes.clients) all.push_back(client.socket);
  for (const ProcessNote& worker : notes.workers) {
    all.push_back(worker.socket);
    if (worker.line >= 0) all.push_back(worker.line);
  }
  for (const ForkServers::KeptServer& note : notes.fork_servers) all.push_back(note.server.socket);
  return all;
}

// CBOR keeps texts unchanged, even a path without valid UTF-8, which JSON cannot hold.
std::string to_bytes(const Json& json) {
  std::string bytes;
  Json::to_cbor(json, bytes);
  return bytes;
}

Json from_bytes(const std::string& bytes) {
  try {
    return Json::from_cbor(bytes);
  } catch (const nlohmann::json::exception& error) {
    throw Error::make(Fault::bug, "the launcher's handover cannot be read: {}", error.what());
  }
}

}  // namespace

void reexec(const Handover& handover) {
  const Notes notes = notes_of(handover);
  Json json = codec::fields_of(handover);
  decisions::RunState job = handover.job;
  drop_empty_places(job, handover.processes.workers);
  json["job"] = codec::fields_of(job);
  json["processes"] = codec::fields_of(notes);
  UniqueFd note;
  try {
    note = memory_file("estrain-handover", to_bytes(json));
  } catch (const Error&) {
    return;
  }
  set_inherited({note.get()}, true);
  set_inherited(descriptors_of(handover, notes), true);
  std::string program = own_executable(), verb = "train", option = "--handover", fd = std::to_string(note.get());
  char* arguments[] = {program.data(), verb.data(), option.data(), fd.data(), nullptr};
  ::execv(running_program, arguments);
  set_inherited(descriptors_of(handover, notes), false);
}

Handover take_handover(int fd) {
  const UniqueFd note(fd);
  const Json json = from_bytes(with_context("the launcher's handover", [&] { return read_memory_file(fd); }));
  Handover handover;
  codec::from_field(json, handover);
  codec::from_field(json.at("job"), handover.job);
  handover.job = decisions::after_handover(handover.job);
  Notes notes;
  codec::from_field(json.at("processes"), notes);
  set_inherited(descriptors_of(handover, notes), false);
  adopt(notes, handover);
  return handover;
}

}  // namespace estrain::launch

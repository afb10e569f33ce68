#include "core/launch/run/processes/handover.h"

#include <fcntl.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/files/memory_file.h"
#include "core/launch/control/control_request.h"

namespace estrain::launch {
namespace {

using conduct::Loss;
using conduct::Member;
using conduct::ResizeUnderWay;
using conduct::SurvivedFault;
using conduct::WorkerId;

Json to_json(const Member& member, const WorkerProcess& worker) {
  return {{"id", member.id.value},        {"kind", member.device.text()}, {"begin", member.ests.begin.value},
          {"end", member.ests.end.value}, {"pid", worker.process.pid()},  {"socket", worker.socket.descriptor()},
          {"log_begin", worker.log_begin}};
}

Member member_from_json(const Json& json) {
  return {.id = WorkerId(json.at("id")),
          .device = place::devices_from({json.at("kind")}).front(),
          .ests = {VirtualRank(json.at("begin")), VirtualRank(json.at("end"))}};
}

WorkerProcess process_from_json(const Json& json) {
  WorkerProcess worker;
  worker.process = ChildProcess::adopt(json.at("pid"));
  worker.socket = comm::WorkerChannel(comm::MessageSocket(UniqueFd(json.at("socket"))));
  worker.log_begin = json.at("log_begin");
  worker.started_ns = monotonic_ns();
  return worker;
}

Json to_json(const ResizeUnderWay& resize) {
  return {{"client", resize.client.value_or(0)},
          {"before", resize.before},
          {"after", resize.after},
          {"step", resize.step.value},
          {"requested_ns", resize.requested_ns},
          {"warmed_ns", resize.warmed_ns},
          {"stopped_ns", resize.stopped_ns},
          {"step_seconds_before", resize.step_seconds_before},
          {"step_seconds_warming", resize.step_seconds_warming},
          {"why", resize.why},
          {"gives_back", resize.gives_back},
          {"answer", resize.answer.value_or(Json())}};
}

ResizeUnderWay resize_from_json(const Json& json) {
  ResizeUnderWay resize;
  const ClientId client = json.at("client");
  if (client != 0) resize.client = client;
  resize.before = json.at("before");
  resize.after = json.at("after");
  resize.step = Step(json.at("step"));
  resize.requested_ns = json.at("requested_ns");
  resize.warmed_ns = json.at("warmed_ns");
  resize.stopped_ns = json.at("stopped_ns");
  resize.step_seconds_before = json.at("step_seconds_before");
  resize.step_seconds_warming = json.at("step_seconds_warming");
  resize.why = json.at("why");
  resize.gives_back = json.at("gives_back");
  if (!json.at("answer").is_null()) resize.answer.emplace(json.at("answer"));
  return resize;
}

Json to_json(const Loss& loss) {
  return {{"worker", loss.worker.value},
          {"kind", loss.device.text()},
          {"begin", loss.ests.begin.value},
          {"end", loss.ests.end.value},
          {"cause", loss.cause},
          {"what", loss.what},
          {"step", loss.step.value},
          {"steps_redone", loss.steps_redone},
          {"last_beat_ns", loss.last_beat_ns},
          {"noticed_ns", loss.noticed_ns}};
}

Loss loss_from_json(const Json& json) {
  Loss loss;
  loss.worker = WorkerId(json.at("worker"));
  loss.device = place::devices_from({json.at("kind")}).front();
  loss.ests = {VirtualRank(json.at("begin")), VirtualRank(json.at("end"))};
  loss.cause = json.at("cause");
  loss.what = json.at("what");
  loss.step = Step(json.at("step"));
  loss.steps_redone = json.at("steps_redone");
  loss.last_beat_ns = json.at("last_beat_ns");
  loss.noticed_ns = json.at("noticed_ns");
  return loss;
}

Json to_json(const SurvivedFault& fault) {
  Json json = {{"worker", fault.worker.value},
               {"step", fault.step.value},
               {"cause", fault.cause},
               {"class", fault.fault_class},
               {"steps_redone", fault.steps_redone}};
  if (fault.seconds_lost) json["seconds_lost"] = *fault.seconds_lost;
  return json;
}

SurvivedFault fault_from_json(const Json& json) {
  SurvivedFault fault{.worker = WorkerId(json.at("worker")),
                      .step = Step(json.at("step")),
                      .cause = json.at("cause"),
                      .fault_class = json.at("class"),
                      .steps_redone = json.at("steps_redone")};
  if (json.contains("seconds_lost")) fault.seconds_lost = json.at("seconds_lost").get<double>();
  return fault;
}

void set_inherited(const std::vector<int>& descriptors, bool inherited) {
  for (int fd : descriptors) ::fcntl(fd, F_SETFD, inherited ? 0 : FD_CLOEXEC);
}

std::vector<int> descriptors_of(const Json& json) {
  std::vector<int> all = {json.at("memory"),  json.at("doorbell"), json.at("lock"),          json.at("spec"),
                          json.at("library"), json.at("listener"), json.at("scribe_socket"), json.at("courier_bell")};
  if (json.contains("courier_socket")) all.push_back(json.at("courier_socket"));
  for (const auto& [id, fd] : json.at("clients").items()) all.push_back(fd);
  for (const char* list : {"workers", "leaving"}) {
    for (const Json& worker : json.at("job").at(list)) all.push_back(worker.at("socket"));
  }
  return all;
}

// CBOR: texts stay as they are, also a path that is not UTF-8, which JSON cannot hold.
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

Json members_to_json(const std::vector<Member>& members, const Handover& handover) {
  Json list = Json::array();
  for (const Member& member : members) {
    const auto worker = handover.workers.find(member.id);
    if (worker != handover.workers.end()) list.push_back(to_json(member, worker->second));
  }
  return list;
}

Json to_json(const conduct::State& job, const Handover& handover) {
  Json json = {{"ests", job.ests},
               {"retries", job.retries},
               {"grace_seconds", job.grace_seconds},
               {"fault_step", job.fault_step.value},
               {"faults_at_step", job.faults_at_step},
               {"less_memory", job.less_memory},
               {"workers_started", job.workers_started},
               {"stage", job.stage},
               {"last_saved_step", job.scribe.last_saved_step},
               {"held", texts_of(job.held)},
               {"faults", Json::array()},
               {"waiting", Json::array()},
               {"workers", members_to_json(job.workers, handover)},
               {"leaving", members_to_json(job.leaving, handover)}};
  for (const SurvivedFault& fault : job.faults) json["faults"].push_back(to_json(fault));
  for (const conduct::WaitingRequest& waiting : job.waiting)
    json["waiting"].push_back(
        {{"client", waiting.client}, {"request", encode_request(waiting.request)}, {"arrived_ns", waiting.arrived_ns}});
  if (job.recovery) json["recovery"] = to_json(*job.recovery);
  if (job.resize) json["resize"] = to_json(*job.resize);
  return json;
}

conduct::State job_from_json(const Json& json) {
  conduct::State job;
  job.ests = json.at("ests");
  job.retries = json.at("retries");
  job.grace_seconds = json.at("grace_seconds");
  job.fault_step = Step(json.at("fault_step"));
  job.faults_at_step = json.at("faults_at_step");
  job.less_memory = json.at("less_memory");
  job.workers_started = json.at("workers_started");
  job.stage = json.at("stage");
  job.scribe.last_saved_step = json.at("last_saved_step");
  job.held = place::devices_from(json.at("held"));
  for (const Json& fault : json.at("faults")) job.faults.push_back(fault_from_json(fault));
  for (const Json& waiting : json.at("waiting"))
    job.waiting.push_back({waiting.at("client"), decode_request(waiting.at("request")), waiting.at("arrived_ns")});
  for (const Json& member : json.at("workers")) job.workers.push_back(member_from_json(member));
  for (const Json& member : json.at("leaving")) job.leaving.push_back(member_from_json(member));
  if (json.contains("recovery")) job.recovery = loss_from_json(json.at("recovery"));
  if (json.contains("resize")) job.resize = resize_from_json(json.at("resize"));
  return conduct::after_handover(job);
}

Json to_json(const Handover& handover) {
  Json json = {{"run", handover.run},
               {"fault_rules", handover.fault_rules},
               {"options", comm::fields_of(handover.options)},
               {"cores", handover.cores},
               {"memory", handover.shared.memory},
               {"doorbell", handover.shared.doorbell},
               {"lock", handover.shared.lock},
               {"spec", handover.shared.spec},
               {"library", handover.shared.library},
               {"courier_bell", handover.shared.courier},
               {"hosts_stage", handover.hosts_stage},
               {"links", handover.links},
               {"started_ns", handover.started_ns},
               {"job", to_json(handover.job, handover)},
               {"scribe_pid", handover.scribe.process.pid()},
               {"scribe_socket", handover.scribe.socket.descriptor()},
               {"scribe_log_begin", handover.scribe.log_begin},
               {"listener", handover.listener},
               {"clients", Json::object()},
               {"changes", handover.changes},
               {"profiles", handover.profiles},
               {"start_seconds", handover.start_seconds}};
  for (const auto& [id, fd] : handover.clients) json["clients"][std::to_string(id)] = fd;
  if (handover.courier) {
    json["courier_pid"] = handover.courier->process.pid();
    json["courier_socket"] = handover.courier->socket.descriptor();
  }
  if (handover.accuracy) json["accuracy"] = *handover.accuracy;
  if (handover.ends_ns) json["ends_ns"] = *handover.ends_ns;
  return json;
}

}  // namespace

void reexec(const Handover& handover) {
  const Json json = to_json(handover);
  UniqueFd note;
  try {
    note = memory_file("estrain-handover", to_bytes(json));
  } catch (const Error&) {
    return;
  }
  set_inherited({note.get()}, true);
  set_inherited(descriptors_of(json), true);
  std::string program = own_executable(), verb = "train", option = "--handover", fd = std::to_string(note.get());
  char* arguments[] = {program.data(), verb.data(), option.data(), fd.data(), nullptr};
  ::execv(running_program, arguments);
  set_inherited(descriptors_of(json), false);
}

Handover take_handover(int fd) {
  const UniqueFd note(fd);
  const Json json = from_bytes(with_context("the launcher's handover", [&] { return read_memory_file(fd); }));
  set_inherited(descriptors_of(json), false);
  Handover handover;
  handover.run = json.at("run");
  handover.fault_rules = json.at("fault_rules");
  comm::from_field(json.at("options"), handover.options);
  handover.cores = json.at("cores");
  handover.shared = {json.at("memory"), json.at("doorbell"), json.at("lock"),
                     json.at("spec"),   json.at("library"),  json.at("courier_bell")};
  handover.hosts_stage = json.at("hosts_stage");
  handover.links = json.at("links");
  if (json.contains("courier_socket"))
    handover.courier = {ChildProcess::adopt(json.at("courier_pid")),
                        comm::MessageSocket(UniqueFd(json.at("courier_socket")))};
  handover.started_ns = json.at("started_ns");
  handover.changes = json.at("changes");
  handover.profiles = json.at("profiles");
  handover.start_seconds = json.at("start_seconds");
  if (json.contains("accuracy")) handover.accuracy = json.at("accuracy").get<double>();
  handover.scribe = {ChildProcess::adopt(json.at("scribe_pid")),
                     record::ScribeChannel(comm::MessageSocket(UniqueFd(json.at("scribe_socket")))), monotonic_ns(), 0,
                     json.at("scribe_log_begin")};
  handover.listener = json.at("listener");
  for (const auto& [id, client] : json.at("clients").items()) handover.clients[std::stoll(id)] = client;
  handover.job = job_from_json(json.at("job"));
  for (const char* list : {"workers", "leaving"}) {
    for (const Json& worker : json.at("job").at(list))
      handover.workers.emplace(WorkerId(worker.at("id")), process_from_json(worker));
  }
  if (json.contains("ends_ns")) handover.ends_ns = json.at("ends_ns").get<int64_t>();
  return handover;
}

}  // namespace estrain::launch

#include "core/launch/handover.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/clock.h"

namespace estrain::launch {
namespace {

Json to_json(const WorkerProcess& worker) {
  return {{"id", worker.id},
          {"kind", worker.device.kind},
          {"begin", worker.ests.begin.value},
          {"end", worker.ests.end.value},
          {"pid", worker.process.pid()},
          {"socket", worker.socket.descriptor()},
          {"log_begin", worker.log_begin}};
}

WorkerProcess worker_from_json(const Json& json) {
  WorkerProcess worker;
  worker.id = json.at("id");
  worker.device.kind = json.at("kind");
  worker.ests = {VirtualRank(json.at("begin")), VirtualRank(json.at("end"))};
  worker.process = ChildProcess::adopt(json.at("pid"));
  worker.socket = comm::MessageSocket(UniqueFd(json.at("socket")));
  worker.log_begin = json.at("log_begin");
  worker.ready = true;
  worker.started_ns = monotonic_ns();
  return worker;
}

Json to_json(const ResizeUnderWay& resize) {
  return {{"client", resize.client.value_or(0)},
          {"before", resize.before},
          {"after", resize.after},
          {"step", resize.step},
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
  resize.step = json.at("step");
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
  return {{"worker", loss.worker},
          {"kind", loss.device.kind},
          {"begin", loss.ests.begin.value},
          {"end", loss.ests.end.value},
          {"cause", loss.cause},
          {"what", loss.what},
          {"step", loss.step},
          {"steps_redone", loss.steps_redone},
          {"last_beat_ns", loss.last_beat_ns},
          {"noticed_ns", loss.noticed_ns}};
}

Loss loss_from_json(const Json& json) {
  Loss loss;
  loss.worker = json.at("worker");
  loss.device.kind = json.at("kind");
  loss.ests = {VirtualRank(json.at("begin")), VirtualRank(json.at("end"))};
  loss.cause = json.at("cause");
  loss.what = json.at("what");
  loss.step = json.at("step");
  loss.steps_redone = json.at("steps_redone");
  loss.last_beat_ns = json.at("last_beat_ns");
  loss.noticed_ns = json.at("noticed_ns");
  return loss;
}

void set_inherited(const std::vector<int>& descriptors, bool inherited) {
  for (int fd : descriptors) ::fcntl(fd, F_SETFD, inherited ? 0 : FD_CLOEXEC);
}

std::vector<int> descriptors_of(const Json& json) {
  std::vector<int> all = {json.at("memory"),  json.at("doorbell"), json.at("lock"),         json.at("spec"),
                          json.at("library"), json.at("listener"), json.at("scribe_socket")};
  for (const auto& [id, fd] : json.at("clients").items()) all.push_back(fd);
  for (const char* list : {"workers", "leaving"}) {
    for (const Json& worker : json.at(list)) all.push_back(worker.at("socket"));
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

Json to_json(const Handover& handover) {
  Json json = {{"run", handover.run},
               {"fault_rules", handover.fault_rules},
               {"allow_mixed", handover.allow_mixed},
               {"oversubscribe", handover.oversubscribe},
               {"cuda_streams", handover.cuda_streams},
               {"grace_seconds", handover.grace_seconds},
               {"cores", handover.cores},
               {"fault_step", handover.fault_step},
               {"faults_at_step", handover.faults_at_step},
               {"faults", handover.faults},
               {"less_memory", handover.less_memory},
               {"memory", handover.shared.memory},
               {"doorbell", handover.shared.doorbell},
               {"lock", handover.shared.lock},
               {"spec", handover.shared.spec},
               {"library", handover.shared.library},
               {"workers_started", handover.workers_started},
               {"stage", handover.stage},
               {"started_ns", handover.started_ns},
               {"last_saved_step", handover.last_saved_step},
               {"scribe_pid", handover.scribe.process.pid()},
               {"scribe_socket", handover.scribe.socket.descriptor()},
               {"scribe_log_begin", handover.scribe.log_begin},
               {"listener", handover.listener},
               {"clients", Json::object()},
               {"workers", Json::array()},
               {"leaving", Json::array()}};
  for (const auto& [id, fd] : handover.clients) json["clients"][std::to_string(id)] = fd;
  for (const WorkerProcess& worker : handover.workers) json["workers"].push_back(to_json(worker));
  for (const WorkerProcess& worker : handover.leaving) json["leaving"].push_back(to_json(worker));
  json["held"] = handover.held;
  json["elasticity"] = handover.elasticity;
  json["profiles"] = handover.profiles;
  json["start_seconds"] = handover.start_seconds;
  json["waiting"] = Json::array();
  for (const WaitingRequest& waiting : handover.waiting)
    json["waiting"].push_back(
        {{"client", waiting.client}, {"request", waiting.request}, {"arrived_ns", waiting.arrived_ns}});
  if (handover.accuracy) json["accuracy"] = *handover.accuracy;
  if (handover.ends_ns) json["ends_ns"] = *handover.ends_ns;
  if (handover.recovery) json["recovery"] = to_json(*handover.recovery);
  if (handover.resize) json["resize"] = to_json(*handover.resize);
  return json;
}

}  // namespace

void reexec(const Handover& handover) {
  const Json json = to_json(handover);
  const std::string text = to_bytes(json);
  const int note = ::memfd_create("estrain-handover", 0);
  if (note < 0 || ::pwrite(note, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) return;
  set_inherited(descriptors_of(json), true);
  std::string program = own_executable(), verb = "train", option = "--handover", fd = std::to_string(note);
  char* arguments[] = {program.data(), verb.data(), option.data(), fd.data(), nullptr};
  ::execv(running_program, arguments);
  set_inherited(descriptors_of(json), false);
  ::close(note);
}

Handover take_handover(int fd) {
  const UniqueFd note(fd);
  const off_t size = ::lseek(fd, 0, SEEK_END);
  std::string text(static_cast<size_t>(size < 0 ? 0 : size), '\0');
  if (::pread(fd, text.data(), text.size(), 0) != size)
    throw system_error("cannot read the launcher's handover", errno);
  const Json json = from_bytes(text);
  set_inherited(descriptors_of(json), false);
  Handover handover;
  handover.run = json.at("run");
  handover.fault_rules = json.at("fault_rules");
  handover.allow_mixed = json.at("allow_mixed");
  handover.oversubscribe = json.at("oversubscribe");
  handover.cuda_streams = json.at("cuda_streams");
  handover.grace_seconds = json.at("grace_seconds");
  handover.cores = json.at("cores");
  handover.fault_step = json.at("fault_step");
  handover.faults_at_step = json.at("faults_at_step");
  handover.faults = json.at("faults");
  handover.less_memory = json.at("less_memory");
  handover.shared = {json.at("memory"), json.at("doorbell"), json.at("lock"), json.at("spec"), json.at("library")};
  handover.workers_started = json.at("workers_started");
  handover.stage = json.at("stage");
  handover.started_ns = json.at("started_ns");
  handover.last_saved_step = json.at("last_saved_step");
  handover.held = json.at("held");
  handover.elasticity = json.at("elasticity");
  handover.profiles = json.at("profiles");
  handover.start_seconds = json.at("start_seconds");
  for (const Json& waiting : json.at("waiting"))
    handover.waiting.push_back({waiting.at("client"), waiting.at("request"), waiting.at("arrived_ns")});
  if (json.contains("accuracy")) handover.accuracy = json.at("accuracy").get<double>();
  handover.scribe = {ChildProcess::adopt(json.at("scribe_pid")),
                     comm::MessageSocket(UniqueFd(json.at("scribe_socket"))), monotonic_ns(), 0,
                     json.at("scribe_log_begin")};
  handover.listener = json.at("listener");
  for (const auto& [id, client] : json.at("clients").items()) handover.clients[std::stoll(id)] = client;
  for (const Json& worker : json.at("workers")) handover.workers.push_back(worker_from_json(worker));
  for (const Json& worker : json.at("leaving")) handover.leaving.push_back(worker_from_json(worker));
  if (json.contains("ends_ns")) handover.ends_ns = json.at("ends_ns").get<int64_t>();
  if (json.contains("recovery")) handover.recovery = loss_from_json(json.at("recovery"));
  if (json.contains("resize")) handover.resize = resize_from_json(json.at("resize"));
  return handover;
}

}  // namespace estrain::launch

#include "core/run/launch/launcher/processes/handover.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "core/run/launch/control/control_request.h"
#include "core/state/comm/job_memory.h"
#include "core/state/run_directory/passed_spec.h"
#include "tests/scratch_folder.h"

// The launcher re-execs itself as `<program> train --handover FD`. This test program does the same: its re-exec'd
// instance, recognised by these arguments before any test runs, takes the handover and writes down what it received.

namespace estrain::launch {
namespace {

ChildProcess sleeper() {
  ChildOptions options;
  options.arguments = {"/bin/sleep", "60"};
  return ChildProcess::start(options);
}

using decisions::Member;
using decisions::WorkerId;

void add_worker(Handover& handover, std::vector<Member>& list, int64_t id, const char* kind, int64_t begin, int64_t end,
                comm::MessageSocket socket) {
  WorkerProcess made;
  made.process = sleeper();
  made.socket = comm::WorkerChannel(std::move(socket));
  made.log_begin = 100 + static_cast<uint64_t>(id);
  handover.processes.workers.emplace(WorkerId(id), std::move(made));
  list.push_back({.id = WorkerId(id),
                  .device = placement::devices_from({kind}).front(),
                  .ests = {VirtualRank(begin), VirtualRank(end)}});
}

Json describe(const Handover& handover, const std::vector<Member>& members) {
  Json all = Json::array();
  for (const Member& one : members) {
    const WorkerProcess& process = handover.processes.workers.at(one.id);
    all.push_back({one.id.value, one.device.text(), one.ests.begin.value, one.ests.end.value, process.process.pid(),
                   process.log_begin});
  }
  return all;
}

Json describe(const Handover& handover) {
  Json clients = Json::array();
  for (const auto& [id, fd] : handover.clients) clients.push_back({id, fd});
  Json json = {{"run", std::vector<unsigned char>(handover.run.begin(), handover.run.end())},
               {"options", codec::fields_of(handover.options)},
               {"fault_rules", handover.fault_rules},
               {"shared",
                {handover.processes.shared.memory, handover.processes.shared.doorbell, handover.processes.shared.lock,
                 handover.processes.shared.spec, handover.processes.shared.library}},
               {"scribe_log_begin", handover.processes.scribe.log_begin},
               {"workers_started", handover.job.workers_started},
               {"stage", handover.job.stage},
               {"ests", handover.job.ests},
               {"retries", handover.job.retries},
               {"grace_seconds", handover.job.grace_seconds},
               {"fault_step", handover.job.fault_step.value},
               {"faults_at_step", handover.job.faults_at_step},
               {"less_memory", handover.job.less_memory},
               {"started_ns", count_ns(handover.times.started)},
               {"last_saved_step", handover.job.scribe.last_saved_step},
               {"accuracy", handover.accuracy.value_or(-1)},
               {"scribe", handover.processes.scribe.process.pid()},
               {"workers", describe(handover, handover.job.workers)},
               {"leaving", describe(handover, handover.job.leaving)},
               {"listener", handover.listener},
               {"clients", clients},
               {"held", texts_of(handover.job.held)},
               {"cores", handover.cores},
               {"start_seconds", handover.times.start_seconds},
               {"changes", handover.changes},
               {"profiles", handover.profiles},
               {"waiting", Json::array()},
               {"faults", Json::array()}};
  for (const decisions::SurvivedFault& fault : handover.job.faults)
    json["faults"].push_back({fault.worker.value, fault.step.value, fault.cause, fault.fault_class,
                              fault.seconds_lost.value_or(-1), fault.steps_redone});
  if (const auto& loss = handover.job.recovery)
    json["recovery"] = {loss->worker.value,     loss->device.text(), loss->ests.begin.value,
                        loss->ests.end.value,   loss->cause,         loss->what,
                        loss->step.value,       loss->steps_redone,  count_ns(loss->last_beat),
                        count_ns(loss->noticed)};
  for (const decisions::WaitingRequest& waiting : handover.job.waiting)
    json["waiting"].push_back({waiting.client, encode_request(waiting.request), count_ns(waiting.arrived)});
  if (handover.job.resize) {
    const decisions::ResizeUnderWay& resize = *handover.job.resize;
    json["resize"] = {resize.client.value_or(-1),
                      resize.before,
                      resize.after,
                      resize.step.value,
                      count_ns(resize.requested),
                      count_ns(resize.warmed),
                      count_ns(resize.stopped),
                      resize.step_seconds_before,
                      resize.step_seconds_warming,
                      resize.why,
                      resize.gives_back,
                      resize.answer.value_or(Json())};
  }
  return json;
}

// The re-exec'd instance: reports through the first worker's socket, and shows that everything it received works.
[[noreturn]] void be_the_successor(int fd) {
  Handover handover = take_handover(fd);
  Json report = describe(handover);
  report["note_open"] = ::fcntl(fd, F_GETFD) != -1;
  report["close_on_exec"] = Json::array();
  for (const int kept : {handover.processes.shared.memory, handover.processes.shared.doorbell,
                         handover.processes.shared.lock, handover.processes.shared.spec, handover.listener,
                         handover.processes.workers.at(WorkerId(0)).socket.descriptor(),
                         handover.processes.scribe.socket.descriptor()}) {
    report["close_on_exec"].push_back(::fcntl(kept, F_GETFD) == FD_CLOEXEC);
  }
  report["pid"] = ::getpid();
  for (auto& [id, one] : handover.processes.workers) one.process.signal(SIGTERM);
  handover.processes.scribe.process.signal(SIGTERM);
  report["ends"] = Json::array();
  for (auto& [id, one] : handover.processes.workers) report["ends"].push_back(one.process.wait().text());
  report["ends"].push_back(handover.processes.scribe.process.wait().text());
  comm::MessageSocket to_test(UniqueFd(::dup(handover.processes.workers.at(WorkerId(0)).socket.descriptor())));
  ::_exit(to_test.send(report) ? 0 : 1);
}

// glibc passes main's arguments to constructors too.
[[gnu::constructor]] void recognise_successor(int argc, char** argv, char**) {
  if (argc == 4 && std::string_view(argv[2]) == "--handover") be_the_successor(std::atoi(argv[3]));
}

// A launcher with three workers, one of them leaving, a scribe, and a client that waits for its resize. Never returns.
[[noreturn]] void be_the_launcher(const ScratchFolder& folder, comm::MessageSocket report_to, bool with_resize) {
  Handover handover;
  handover.run = folder.path() + "/not UTF-8: \xff";
  handover.options = {.allow_mixed = with_resize,
                      .oversubscribe = with_resize,
                      .cuda_streams = !with_resize,
                      .background = !with_resize,
                      .shared_mark = with_resize ? "shared" : "",
                      .own_host = with_resize ? "nodeB" : "",
                      .listen = with_resize ? ":7000" : ""};
  const UniqueFd memory = comm::JobMemory::create(), doorbell(::eventfd(0, EFD_CLOEXEC)),
                 lock = open_file(folder / "lock", O_RDWR | O_CREAT), spec = run_directory::pass_spec({}),
                 library = open_file("/proc/self/exe", O_RDONLY);
  handover.processes.shared = {memory.get(), doorbell.get(), lock.get(), spec.get(), with_resize ? library.get() : -1};
  handover.fault_rules = with_resize ? "# none" : "";
  decisions::RunState& job = handover.job;
  job.workers_started = 3;
  job.stage = 2;
  job.ests = 8;
  job.retries = 3;
  job.grace_seconds = 2.5;
  job.fault_step = Step(69);
  job.faults_at_step = 2;
  job.less_memory = true;
  job.faults = {{WorkerId(7), Step(11), "killed", "infrastructure", {}, 0},
                {decisions::kNobody, Step(12), "hung", "engine", 0.5, 3}};
  handover.times.started = monotonic_time(INT64_C(1) << 60);
  auto other_end = comm::MessageSocket::pair(), third = comm::MessageSocket::pair(),
       scribe = comm::MessageSocket::pair();
  add_worker(handover, job.workers, 0, "cpu", 0, 3, std::move(report_to));
  add_worker(handover, job.workers, 2, "cpu:avx2", 3, 8, std::move(other_end.first));
  add_worker(handover, job.leaving, 1, "cpu", 3, 8, std::move(third.first));
  handover.processes.scribe = {sleeper(), record::ScribeChannel(std::move(scribe.first)), kNoTime, kNoTime, 77};
  const ControlServer control(folder.path());
  handover.listener = control.listener();
  handover.clients = {{5, doorbell.get()}};
  if (with_resize) job.scribe.last_saved_step = 70;
  if (with_resize)
    job.recovery = decisions::LostWorker{WorkerId(3),
                                         {"cpu"},
                                         {VirtualRank(0), VirtualRank(3)},
                                         "killed",
                                         "by SIGKILL",
                                         Step(75),
                                         1,
                                         monotonic_time(123),
                                         monotonic_time(456)};
  if (with_resize) handover.accuracy = 0.875;
  if (with_resize)
    job.resize = decisions::ResizeUnderWay{
        5,     "cpu", "cpu,cpu", Step(77), monotonic_time(1),     monotonic_time(2), monotonic_time(3), 0.1, 0.25,
        "why", true,  false,     true,     Json{{"taken", "cpu"}}};
  job.held = placement::devices_from({"cpu", "cpu:avx2"});
  handover.cores = 7;
  handover.times.start_seconds = 1.5;
  handover.changes = {{"decisions", {"one"}}};
  handover.profiles = {{"format", "estrain profiles 1"}};
  job.waiting = {{5, decisions::OfferRequest{"cpu"}, monotonic_time(123)}};
  write_file_atomically(folder / "before", describe(handover).dump());
  reexec(handover);
  ::_exit(99);
}

Json hand_over(bool with_resize) {
  const ScratchFolder folder;
  auto [ours, theirs] = comm::MessageSocket::pair();
  const pid_t launcher = ::fork();
  if (launcher == 0) be_the_launcher(folder, std::move(theirs), with_resize);
  theirs.close();
  Json after;
  REQUIRE(ours.receive(&after, 20s) == comm::MessageSocket::Received::message);
  int status = 0;
  REQUIRE(::waitpid(launcher, &status, 0) == launcher);
  CHECK(status == 0);
  CHECK(after.at("pid") == launcher);
  CHECK_FALSE(after.at("note_open").get<bool>());
  for (const Json& closes : after.at("close_on_exec")) CHECK(closes.get<bool>());
  CHECK(after.at("ends").size() == 4);
  for (const Json& end : after.at("ends")) CHECK(end == "SIGTERM (signal 15)");
  const Json before = parse_json(read_file(folder / "before"), "before");
  for (const auto& [key, value] : before.items()) {
    CAPTURE(key);
    CHECK(after.at(key) == value);
  }
  return after;
}

TEST_CASE("a re-exec'd launcher has the same number, children, descriptors and words") {
  const Json after = hand_over(true);
  CHECK(after.at("resize").at(0) == 5);
}

TEST_CASE("without a resize under way there is none afterwards") { CHECK_FALSE(hand_over(false).contains("resize")); }

}  // namespace
}  // namespace estrain::launch

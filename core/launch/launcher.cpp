#include "core/launch/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>
#include <utility>

#include "core/base/clock.h"
#include "core/launch/passed_spec.h"
#include "core/launch/profiling.h"
#include "core/spec/enum_names.h"

namespace estrain::launch {

using conduct::Phase;
using conduct::WorkerId;

namespace {

constexpr int kTickWhileChangingMilliseconds = 2;
constexpr int kPatienceWithScribeMs = 5000;

bool is_ignored(int signal) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

UniqueFd new_doorbell() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) throw system_error("cannot create an event descriptor", errno);
  return fd;
}

}  // namespace

Launcher::Launcher(LaunchPlan plan)
    : directory_(plan.run),
      spec_(std::move(plan.spec)),
      memory_fd_(comm::JobMemory::create()),
      doorbell_(new_doorbell()),
      lock_(std::move(plan.lock)),
      spec_fd_(pass_spec(spec_)),
      library_(::open(worker_library().c_str(), O_RDONLY | O_CLOEXEC)),
      courier_bell_(new_doorbell()),
      checkpoint_(std::move(plan.checkpoint)),
      checkpoint_cpu_(std::move(plan.checkpoint_cpu)),
      accepts_data_(plan.accepts_data),
      from_step_(plan.from_step),
      printer_(spec_.logging.every_seconds),
      faults_(faults::FaultTable::with_rules_of(plan.fault_rules, spec_.recovery.rules)),
      sentry_(nanoseconds(spec_.recovery.hang_seconds)),
      adviser_(spec_, Elasticity()) {
  block_signals();
  state_.run = plan.run;
  state_.fault_rules = std::move(plan.fault_rules);
  state_.allow_mixed = plan.allow_mixed;
  state_.oversubscribe = plan.oversubscribe;
  state_.cuda_streams = plan.cuda_streams;
  job_.ests = spec_.job.ests;
  job_.retries = spec_.recovery.retries;
  job_.grace_seconds = plan.grace_seconds;
  const host::Allocation allocation = host::current_allocation();
  state_.ends_ns = allocation.ends_ns;
  state_.cores = allocation.cores;
  state_.shared = {memory_fd_.get(), doorbell_.get(), lock_.get(), spec_fd_.get(), library_.get(), courier_bell_.get()};
  state_.started_ns = monotonic_ns();
  job_.held = kinds_of(plan.devices);
  const std::vector<EstRange> ranges = place_ests(plan.devices, spec_.job.ests);
  for (size_t i = 0; i < plan.devices.size(); ++i) {
    WorkerStart start = worker_start(plan.devices[i]);
    start.id = job_.workers_started++;
    start.builds = i == 0;
    if (start.builds) start.checkpoint = checkpoint_;
    start.accepts_data = start.builds && accepts_data_;
    const WorkerId id(start.id);
    state_.workers.emplace(id, start_worker(directory_, state_.shared, start));
    job_.workers.push_back({.id = id, .device = plan.devices[i], .ests = ranges[i]});
  }
  state_.scribe = start_scribe(directory_, state_.shared, from_step_);
  control_ = std::make_unique<ControlServer>(directory_.path());
  directory_.log_event("start", {{"step", from_step_}, {"devices", format_devices(plan.devices)}, {"pid", ::getpid()}});
}

Launcher::Launcher(Handover handover)
    : directory_(handover.run),
      spec_(read_passed_spec(handover.shared.spec)),
      state_(std::move(handover)),
      memory_fd_(state_.shared.memory),
      doorbell_(state_.shared.doorbell),
      lock_(state_.shared.lock),
      spec_fd_(state_.shared.spec),
      library_(state_.shared.library),
      courier_bell_(state_.shared.courier),
      printer_(spec_.logging.every_seconds),
      faults_(faults::FaultTable::with_rules_of(state_.fault_rules, spec_.recovery.rules)),
      first_step_seen_(true),
      sentry_(nanoseconds(spec_.recovery.hang_seconds)),
      adviser_(spec_, Elasticity::from_json(state_.elasticity)) {
  block_signals();
  control_ = std::make_unique<ControlServer>(state_.listener, state_.clients);
  attach_memory();
  adviser_.companion().profiles = profile::Profiles::from_json(state_.profiles);
  sentry_.measure_on(kinds_of(devices_in_force(job_)), *memory_, false);
  adviser_.begin_stage(job_, Step(trained()));
}

// Of any worker of this run, on that device; its number is still missing.
WorkerStart Launcher::worker_start(const Device& device) const {
  WorkerStart start;
  start.device = device;
  start.job = spec_.job;
  start.less_memory = job_.less_memory;
  start.allow_mixed = state_.allow_mixed || spec_.job.determinism == spec::Determinism::d2;
  start.cuda_streams = state_.cuda_streams;
  return start;
}

WorkerProcess* Launcher::process_of(WorkerId id) {
  const auto at = state_.workers.find(id);
  return at == state_.workers.end() ? nullptr : &at->second;
}

Launcher::~Launcher() { ::unlink((directory_.path() + "/control.sock").c_str()); }

int Launcher::run() {
  while (job_.phase != Phase::over) wait_for_events();
  return end();
}

// Those that end the job. What nohup, or the shell for a job in the background, has the program ignore, it ignores. Who
// reads its output may go away.
void Launcher::block_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (int number : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) {
    if (!is_ignored(number)) ::sigaddset(&signals, number);
  }
  ::signal(SIGPIPE, SIG_IGN);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  signals_ = UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) throw system_error("cannot watch signals", errno);
}

// One round: sleeps until something happens, then handles it. Handlers change the set of workers, so each round polls
// anew and handles one worker's event at most.
void Launcher::wait_for_events() {
  std::vector<pollfd> polled = {{signals_.get(), POLLIN, 0}, {state_.scribe.socket.descriptor(), POLLIN, 0}};
  for (int fd : control_->descriptors()) polled.push_back({fd, POLLIN, 0});
  const size_t first_worker = polled.size();
  std::vector<WorkerId> workers;
  for (const auto& [id, worker] : state_.workers) {
    workers.push_back(id);
    polled.push_back({worker.socket.descriptor(), POLLIN, 0});
    polled.push_back({worker.process.descriptor(), POLLIN, 0});
  }
  const size_t courier = polled.size();
  if (state_.courier) polled.push_back({state_.courier->socket.descriptor(), POLLIN, 0});
  const bool changes = job_.resize || job_.phase == Phase::recovering;
  ::poll(polled.data(), polled.size(), changes ? kTickWhileChangingMilliseconds : kTickMilliseconds);
  if (polled[0].revents != 0) on_signal();
  if (polled[1].revents != 0) on_scribe_message(0);
  if (courier < polled.size() && polled[courier].revents != 0) on_courier_message();
  for (size_t i = 0; i < workers.size(); ++i) {
    if ((polled[first_worker + 2 * i].revents & POLLIN) != 0) {
      on_worker_message(workers[i]);
      break;
    }
    if (polled[first_worker + 2 * i + 1].revents != 0) {
      on_worker_end(workers[i]);
      break;
    }
  }
  for (size_t i = 2; i < first_worker; ++i) {
    if (polled[i].revents == 0) continue;
    control_->serve(polled[i].fd,
                    [this](ClientId client, const Json& request) { on_request(client, request, monotonic_ns()); });
  }
  tick();
}

// Answers of actions come before anything else that happens: nothing else is looked at meanwhile.
void Launcher::decide(conduct::Event event) {
  events_.push_back(std::move(event));
  if (std::exchange(deciding_, true)) return;
  while (!events_.empty()) {
    const conduct::Event next = std::move(events_.front());
    events_.pop_front();
    for (const conduct::Action& action : conduct::decide(job_, next, moment())) carry_out(action);
  }
  deciding_ = false;
}

conduct::Moment Launcher::moment() const {
  conduct::Moment now;
  now.ns = monotonic_ns();
  now.trained = Step(trained());
  if (!memory_) return now;
  now.attached = true;
  now.stopped_ns = memory_->gate().stopped_ns();
  now.stage_started = memory_->gate().started();
  now.stage_started_ns = memory_->gate().started_ns();
  now.step_seconds = step_seconds();
  if (waits_for_room()) now.no_room = write_error_;
  return now;
}

void Launcher::on_signal() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info)
    decide(conduct::StopAsked{.why = signal_name(static_cast<int>(info.ssi_signo)), .insists = true});
}

void Launcher::on_worker_message(WorkerId id) {
  WorkerProcess* worker = process_of(id);
  if (worker == nullptr) return;
  Json message;
  switch (worker->socket.receive(&message, 0)) {
    case comm::MessageSocket::Received::nothing:
      return;
    case comm::MessageSocket::Received::closed:
      return on_worker_end(id);
    case comm::MessageSocket::Received::message:
      break;
  }
  const std::string say = message.value("say", "");
  if (say == "ready") {
    decide(conduct::WorkerReady{id});
  } else if (say == "left") {
    decide(conduct::WorkerLeft{id, message.value("finished", false)});
  } else if (say == "error") {
    on_worker_error(id, message);
  }
}

void Launcher::on_worker_error(WorkerId id, const Json& message) {
  const Fault fault = static_cast<Fault>(message.value("fault", static_cast<int>(Fault::bug)));
  faults::Evidence evidence;
  evidence.said = Error(fault, message.value("message", "")).advise(message.value("advice", ""));
  lose(id, std::move(evidence));
}

void Launcher::on_worker_end(WorkerId id) {
  WorkerProcess* worker = process_of(id);
  if (worker == nullptr) return;
  Json last_words;
  while (worker->socket && worker->socket.receive(&last_words, 0) == comm::MessageSocket::Received::message) {
    if (last_words.value("say", "") == "error") return on_worker_error(id, last_words);
  }
  lose(id, faults::Evidence{});
}

void Launcher::on_scribe_message(int milliseconds) {
  Json message;
  const auto received = state_.scribe.socket.receive(&message, milliseconds);
  if (received == comm::MessageSocket::Received::nothing) return;
  if (received == comm::MessageSocket::Received::closed) {
    ChildEnd ended;
    state_.scribe.process.wait_for(kPatienceWithScribeMs, &ended);
    state_.scribe.socket.close();
    const bool done = job_.scribe.told_to_finish && !ended.signaled;
    if (done && (ended.code == 0 || job_.failure)) return decide(conduct::ScribeDone{});  // or it said why not
    return lose_scribe(ended, false);
  }
  const std::string say = message.value("say", "");
  message.erase("say");
  if (say == "saved") {
    directory_.log_event("checkpoint", message);
    decide(conduct::Saved{Step(message.value("step", INT64_C(-1)))});
  } else if (say == "save_failed") {
    const Step step(message.value("step", INT64_C(-1)));
    const std::string error = message.value("error", "");
    directory_.log_event("checkpoint_failed", message);
    printer_.note(fmt::format("warning: no checkpoint at step {}: {}", step, error));
    decide(conduct::NotSaved{step, error});
  } else if (say == "evaluated") {
    const Json accuracy = message.value("accuracy", Json());  // null where the model has none
    const Json loss = message.value("loss", Json());          // null where it is NaN or infinite
    state_.accuracy = accuracy.is_number() ? std::optional(accuracy.get<double>()) : std::nullopt;
    printer_.note(fmt::format("step {}: {}test loss {}", message.value("step", INT64_C(0)),
                              state_.accuracy ? fmt::format("test accuracy {:.2f} %, ", 100 * *state_.accuracy) : "",
                              loss.is_number() ? fmt::format("{:.4f}", loss.get<double>()) : "not finite"));
  } else if (say == "skipped") {
    directory_.log_event("skipped", message);
    printer_.note(fmt::format("step {}: no update: {}", message.value("step", INT64_C(0)), message.value("why", "")));
  } else if (say == "write_failed") {
    directory_.log_event("write_failed", message);
    write_error_ = message.value("error", "");
    written_before_error_ = memory_ ? memory_->ring().drained() : 0;
    printer_.note(
        fmt::format("warning: {}; records wait in memory until there is room, and training with them", write_error_));
    decide(conduct::NotWritten{write_error_});
  } else if (say == "error") {
    decide(conduct::ScribeFailed{Error(static_cast<Fault>(message.value("fault", 0)), message.value("message", ""))
                                     .advise(message.value("advice", ""))});
  }
}

void Launcher::on_request(ClientId client, const Json& request, int64_t arrived_ns) {
  try {
    const std::string verb = request.value("do", "");
    if (verb == "status") {
      control_->reply(client, status());
    } else if (verb == "resize") {
      begin_resize(client, request);
    } else if (verb == "offer") {
      ask_offer(client, request);
    } else if (verb == "reclaim") {
      reclaim(client, request, arrived_ns);
    } else if (verb == "stop") {
      decide(conduct::StopAsked{.why = "asked to by `estrain stop`", .client = client});
    } else {
      throw Error::make(Fault::usage, "unknown request \"{}\"", verb);
    }
  } catch (const Error& error) {
    control_->reply(client, error_answer(error));
  } catch (const nlohmann::json::exception& error) {
    control_->reply(client, error_answer(Error::make(Fault::usage, "not a request: {}", error.what())));
  }
}

void Launcher::tick() {
  supervise();
  decide(conduct::Tick{});
  while (is_settled(job_) && !job_.waiting.empty()) decide(conduct::Tick{});
  if (job_.phase == Phase::training && !first_step_seen_) note_first_step();
  if (job_.phase == Phase::starting || job_.phase == Phase::over || !memory_) return;
  const int64_t now = monotonic_ns();
  if (printer_.due(now) && trained() > rate_from_step_ && !waits_for_room()) printer_.show(progress(), now);
}

// How long the user waited from the start of this process to the end of the first step.
void Launcher::note_first_step() {
  const uint32_t published = memory_->ring().published();
  if (published == 0) return;
  first_step_seen_ = true;
  if (published >= memory_->ring().capacity()) return;  // its record has been overwritten
  const comm::RecordHead& first = *memory_->ring().at(0).head;
  directory_.log_event("first_step",
                       {{"step", first.step.value}, {"seconds", seconds(first.time_ns - state_.started_ns)}});
}

void Launcher::attach_memory() {
  memory_ = std::make_unique<comm::JobMemory>(memory_fd_.get());
  if (!memory_->is_ready()) throw Error(Fault::bug, "workers are ready but the shared memory is not");
  manifest_ = checkpoint::Manifest::from_json(memory_->manifest());
  rate_from_ns_ = monotonic_ns();
  rate_from_step_ = trained();
  adviser_.settle(profile_host(state_.cores), state_.allow_mixed);
}

}  // namespace estrain::launch

#include "core/launch/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <set>
#include <string>

#include "core/base/clock.h"
#include "core/comm/step_record.h"
#include "core/launch/passed_spec.h"
#include "core/launch/profiling.h"
#include "core/spec/enum_names.h"

namespace estrain::launch {
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
      checkpoint_(std::move(plan.checkpoint)),
      checkpoint_cpu_(std::move(plan.checkpoint_cpu)),
      accepts_data_(plan.accepts_data),
      from_step_(plan.from_step),
      printer_(spec_.logging.every_seconds),
      faults_(faults::FaultTable::with_rules_of(plan.fault_rules, spec_.recovery.rules)) {
  block_signals();
  state_.run = plan.run;
  state_.fault_rules = std::move(plan.fault_rules);
  state_.allow_mixed = plan.allow_mixed;
  state_.oversubscribe = plan.oversubscribe;
  state_.cuda_streams = plan.cuda_streams;
  state_.grace_seconds = plan.grace_seconds;
  const host::Allocation allocation = host::current_allocation();
  state_.ends_ns = allocation.ends_ns;
  state_.cores = allocation.cores;
  state_.shared = {memory_fd_.get(), doorbell_.get(), lock_.get(), spec_fd_.get(), library_.get()};
  state_.started_ns = monotonic_ns();
  state_.held = kinds_of(plan.devices);
  const std::vector<EstRange> ranges = place_ests(plan.devices, spec_.job.ests);
  for (size_t i = 0; i < plan.devices.size(); ++i) {
    WorkerStart start = worker_start(plan.devices[i]);
    start.builds = i == 0;
    if (start.builds) start.checkpoint = checkpoint_;
    start.accepts_data = start.builds && accepts_data_;
    state_.workers.push_back(start_worker(directory_, state_.shared, start));
    state_.workers.back().ests = ranges[i];
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
      printer_(spec_.logging.every_seconds),
      faults_(faults::FaultTable::with_rules_of(state_.fault_rules, spec_.recovery.rules)),
      first_step_seen_(true),
      elastic_(Elasticity::from_json(state_.elasticity)) {
  block_signals();
  control_ = std::make_unique<ControlServer>(state_.listener, state_.clients);
  attach_memory();
  companion_->profiles = profile::Profiles::from_json(state_.profiles);
  for (size_t rank = 0; rank < state_.workers.size(); ++rank) state_.workers[rank].rank = static_cast<int64_t>(rank);
  measured_on_ = kinds_of(devices_in_force());
  stage_devices_ = shares_in_force();
  phase_ = Phase::training;
}

// Of the next worker of this run, on that device.
WorkerStart Launcher::worker_start(const Device& device) {
  WorkerStart start;
  start.id = state_.workers_started++;
  start.device = device;
  start.job = spec_.job;
  start.less_memory = state_.less_memory;
  start.allow_mixed = state_.allow_mixed || spec_.job.determinism == spec::Determinism::d2;
  start.cuda_streams = state_.cuda_streams;
  return start;
}

Launcher::~Launcher() { ::unlink((directory_.path() + "/control.sock").c_str()); }

int Launcher::run() {
  while (phase_ != Phase::over) wait_for_events();
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

std::vector<WorkerProcess*> Launcher::all_workers() {
  std::vector<WorkerProcess*> all;
  for (WorkerProcess& worker : state_.workers) all.push_back(&worker);
  for (WorkerProcess& worker : state_.leaving) all.push_back(&worker);
  if (pending_) {
    for (WorkerProcess& worker : pending_->added) all.push_back(&worker);
  }
  return all;
}

// One round: sleeps until something happens, then handles it. Handlers change the set of workers, so each round polls
// anew and handles one worker's event at most.
void Launcher::wait_for_events() {
  std::vector<pollfd> polled = {{signals_.get(), POLLIN, 0}, {state_.scribe.socket.descriptor(), POLLIN, 0}};
  for (int fd : control_->descriptors()) polled.push_back({fd, POLLIN, 0});
  const size_t first_worker = polled.size();
  const std::vector<WorkerProcess*> workers = all_workers();
  for (const WorkerProcess* worker : workers) {
    polled.push_back({worker->socket.descriptor(), POLLIN, 0});
    polled.push_back({worker->process.descriptor(), POLLIN, 0});
  }
  ::poll(polled.data(), polled.size(),
         state_.resize || phase_ == Phase::recovering ? kTickWhileChangingMilliseconds : kTickMilliseconds);
  if (polled[0].revents != 0) on_signal();
  if (polled[1].revents != 0) on_scribe_message(0);
  for (size_t i = 0; i < workers.size(); ++i) {
    if ((polled[first_worker + 2 * i].revents & POLLIN) != 0) {
      on_worker_message(*workers[i]);
      break;
    }
    if (polled[first_worker + 2 * i + 1].revents != 0) {
      on_worker_end(*workers[i]);
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

void Launcher::on_signal() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    const bool second = ending_ == Ending::stopped;
    request_stop(signal_name(static_cast<int>(info.ssi_signo)));
    if (second) stop_at_once();
  }
}

void Launcher::request_stop(std::string why) {
  if (ending_ != Ending::none) return;
  if (phase_ == Phase::over) return;
  ending_ = Ending::stopped;
  stop_reason_ = std::move(why);
  const bool no_step_under_way = phase_ == Phase::starting || phase_ == Phase::recovering;
  printer_.note("stopping (" + stop_reason_ + ")" +
                (no_step_under_way ? "" : ": a checkpoint is written after the step under way"));
  if (pending_) give_up_resize(Error(Fault::interrupted, "the job is being stopped"));
  if (no_step_under_way) return stop_at_once();
  if (phase_ == Phase::pausing && all_left()) {
    phase_ = Phase::over;
    return;
  }
  stop_deadline_ns_ = monotonic_ns() + nanoseconds(state_.grace_seconds);
  request_pause();
}

bool Launcher::all_left() const { return std::ranges::all_of(state_.workers, &WorkerProcess::left); }

// With the committed step; what was under way is given up.
void Launcher::stop_at_once() {
  stop_at_once_ = true;
  phase_ = Phase::over;
}

void Launcher::request_pause() {
  phase_ = Phase::pausing;
  memory_->header().pause_request.store(1);
}

void Launcher::on_worker_message(WorkerProcess& worker) {
  Json message;
  switch (worker.socket.receive(&message, 0)) {
    case comm::MessageSocket::Received::nothing:
      return;
    case comm::MessageSocket::Received::closed:
      return on_worker_end(worker);
    case comm::MessageSocket::Received::message:
      break;
  }
  const std::string say = message.value("say", "");
  if (say == "ready") {
    worker.ready = true;
    const bool all_ready = std::ranges::all_of(state_.workers, &WorkerProcess::ready);
    if (phase_ == Phase::starting && all_ready) begin_training();
    if (phase_ == Phase::warming) added_worker_ready();
    if (phase_ == Phase::recovering) change_workers_if_ready();
  } else if (say == "left") {
    worker.left = true;
    if (phase_ == Phase::recovering) return change_workers_if_ready();
    if (message.value("finished", false) && ending_ == Ending::none) ending_ = Ending::finished;
    if (all_left()) workers_left_loop();
  } else if (say == "error") {
    on_worker_error(worker, message);
  }
}

void Launcher::on_worker_error(WorkerProcess& worker, const Json& message) {
  const Fault fault = static_cast<Fault>(message.value("fault", static_cast<int>(Fault::bug)));
  faults::Evidence evidence;
  evidence.said = Error(fault, message.value("message", "")).advise(message.value("advice", ""));
  lose(worker, std::move(evidence));
}

void Launcher::on_worker_end(WorkerProcess& worker) {
  Json last_words;
  while (worker.socket.receive(&last_words, 0) == comm::MessageSocket::Received::message) {
    if (last_words.value("say", "") == "error") return on_worker_error(worker, last_words);
  }
  lose(worker, faults::Evidence{});
}

void Launcher::on_scribe_message(int milliseconds) {
  Json message;
  const auto received = state_.scribe.socket.receive(&message, milliseconds);
  if (received == comm::MessageSocket::Received::nothing) return;
  if (received == comm::MessageSocket::Received::closed) {
    ChildEnd ended;
    state_.scribe.process.wait_for(kPatienceWithScribeMs, &ended);
    state_.scribe.socket.close();
    if (closing_scribe_ && !ended.signaled && (ended.code == 0 || failure_)) return;  // done, or it said why not
    return lose_scribe(ended, false);
  }
  const std::string say = message.value("say", "");
  message.erase("say");
  if (say == "saved") {
    state_.last_saved_step = message.value("step", INT64_C(-1));
    directory_.log_event("checkpoint", message);
  } else if (say == "save_failed") {
    last_save_error_ = message.value("error", "");
    unsaved_step_ = message.value("step", INT64_C(-1));
    directory_.log_event("checkpoint_failed", message);
    printer_.note(fmt::format("warning: no checkpoint at step {}: {}", unsaved_step_, last_save_error_));
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
    written_before_error_ = memory_ ? memory_->header().drained.load() : 0;
    printer_.note(
        fmt::format("warning: {}; records wait in memory until there is room, and training with them", write_error_));
    if (pending_ && pending_->asked_for && !pending_->give_back_ns) give_up_resize(Error(Fault::io, write_error_));
  } else if (say == "error") {
    failure_ = Error(static_cast<Fault>(message.value("fault", 0)), message.value("message", ""))
                   .advise(message.value("advice", ""));
    phase_ = Phase::over;
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
      weigh_offer(client, request);
    } else if (verb == "reclaim") {
      reclaim(client, request, arrived_ns);
    } else if (verb == "stop") {
      if (ending_ == Ending::finished) throw Error(Fault::usage, "the job is already ending");
      stop_clients_.push_back(client);
      request_stop("asked to by `estrain stop`");
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
  if (state_.resize) report_resize_if_begun();
  hurry_reclaim(monotonic_ns());
  serve_waiting();
  if (state_.recovery && memory_) report_recovery_if_stepped();
  if (start_missing_at_ns_ != 0 && monotonic_ns() >= start_missing_at_ns_) {
    if (phase_ == Phase::starting) {
      start_lost_workers();
    } else if (pending_) {
      start_missing_workers();
    }
  }
  if (start_scribe_at_ns_ != 0 && monotonic_ns() >= start_scribe_at_ns_) start_scribe_again();
  change_workers_if_ready();
  if (phase_ == Phase::training && !first_step_seen_) note_first_step();
  if (phase_ == Phase::starting || phase_ == Phase::over || !memory_) return;
  const int64_t now = monotonic_ns();
  if (printer_.due(now) && trained() > rate_from_step_ && !waits_for_room()) printer_.show(progress(), now);
}

// How long the user waited from the start of this process to the end of the first step.
void Launcher::note_first_step() {
  const uint32_t published = memory_->header().published.load();
  if (published == 0) return;
  first_step_seen_ = true;
  if (published >= memory_->header().ring_records) return;  // its record has been overwritten
  const comm::RecordHead& first = *comm::view_record(*memory_, 0).head;
  directory_.log_event("first_step", {{"step", first.step}, {"seconds", seconds(first.time_ns - state_.started_ns)}});
}

void Launcher::attach_memory() {
  memory_ = std::make_unique<comm::JobMemory>(memory_fd_.get());
  if (memory_->header().ready.load() == 0) throw Error(Fault::bug, "workers are ready but the shared memory is not");
  manifest_ = checkpoint::Manifest::from_json(memory_->manifest());
  pace_ = pace();
  rate_from_ns_ = monotonic_ns();
  rate_from_step_ = trained();
  speed_meter_.begin(trained());
  companion_ = std::make_unique<Companion>(spec_, profile_host(state_.cores), state_.allow_mixed);
}

// All first workers are ready: the step-0 checkpoint is asked for, and off they go.
void Launcher::begin_training() {
  attach_memory();
  state_.start_seconds = seconds(monotonic_ns() - state_.started_ns);
  load_profiles();
  const int64_t step = trained();
  elastic_.stage_began = step;
  if (step == 0) {
    memory_->hold(0);
    state_.scribe.socket.send({{"do", "checkpoint"}, {"step", 0}});
  }
  printer_.note(fmt::format("{}: {} with {} parameters, {} ESTs on {}, {} of {} steps to go, run directory {}",
                            spec_.job.name, spec_.model.name, manifest_->parameter_count, spec_.job.ests,
                            progress().devices, std::max<int64_t>(0, manifest_->total_steps - step),
                            manifest_->total_steps, directory_.path()));
  const bool any_kind = spec_.job.determinism == spec::Determinism::d2;
  if (!any_kind && !checkpoint_cpu_.empty() && checkpoint_cpu_ != manifest_->processor) {
    printer_.note(
        fmt::format("warning: the checkpoint was made on another kind of processor ({}) than this one ({}); at {} the "
                    "bits may differ from here on",
                    checkpoint_cpu_, manifest_->processor, spec::to_string(spec_.job.determinism)));
  }
  phase_ = Phase::training;
  start_stage();
}

// Whether workers pass data to each other by their devices: all are GPUs, each with one worker.
bool Launcher::workers_exchange() const {
  std::set<std::string> kinds;
  for (const WorkerProcess& worker : state_.workers) {
    if (!is_gpu(worker.device)) return false;
    kinds.insert(worker.device.kind);
  }
  return spec_.job.exchange == spec::Exchange::automatic && kinds.size() > 1 && kinds.size() == state_.workers.size();
}

// Hands the ranges to the workers of state_; they start at once.
void Launcher::start_stage() {
  memory_->open_stage();
  measure_anew_on_other_devices();
  stage_devices_ = shares_in_force();
  speed_meter_.begin(trained());
  Json ranges = Json::array();
  for (const WorkerProcess& worker : state_.workers) ranges.push_back({worker.ests.begin.value, worker.ests.end.value});
  const bool exchanges = workers_exchange();
  for (size_t index = 0; index < state_.workers.size(); ++index) {
    WorkerProcess& worker = state_.workers[index];
    worker.left = false;
    worker.rank = static_cast<int64_t>(index);
    worker.socket.send({{"do", "run"},
                        {"index", index},
                        {"ranges", ranges},
                        {"restarted", state_.stage > 0 || !checkpoint_.empty()},
                        {"exchanges", exchanges}});
  }
  Json devices = Json::array();
  for (const WorkerProcess& worker : state_.workers) devices.push_back(worker.device.kind);
  directory_.log_event("stage", {{"stage", state_.stage},
                                 {"step", trained()},
                                 {"workers", state_.workers.size()},
                                 {"devices", devices},
                                 {"exchange", exchanges ? "GPUs" : "host"},
                                 {"ranges", ranges}});
}

void Launcher::workers_left_loop() {
  if (ending_ != Ending::none) {
    phase_ = Phase::over;
  } else if (pending_) {
    change_workers_if_ready();
  } else {
    phase_ = Phase::training;  // a resize was given up while the workers were leaving their loop
    start_stage();
  }
}

}  // namespace estrain::launch

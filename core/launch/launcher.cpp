#include "core/launch/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <span>
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
  state_.options = plan.options;
  job_.ests = spec_.job.ests;
  job_.retries = spec_.recovery.retries;
  job_.grace_seconds = plan.grace_seconds;
  const host::Allocation allocation = host::current_allocation();
  state_.ends_ns = allocation.ends_ns;
  state_.cores = allocation.cores;
  state_.shared = {memory_fd_.get(), doorbell_.get(), lock_.get(), spec_fd_.get(), library_.get()};
  state_.started_ns = monotonic_ns();
  job_.held = devices_of(plan.devices);
  const std::vector<EstRange> ranges = place::place_ests(plan.devices, spec_.job.ests);
  for (size_t i = 0; i < plan.devices.size(); ++i) {
    WorkerStart start = worker_start(plan.devices[i].device);
    start.id = job_.workers_started++;
    if (i == 0) make_builder(start);
    const WorkerId id(start.id);
    state_.workers.emplace(id, start_worker(directory_, state_.shared, start));
    job_.workers.push_back({.id = id, .device = plan.devices[i].device, .ests = ranges[i]});
  }
  state_.scribe = start_scribe(directory_, state_.shared, from_step_);
  control_ = std::make_unique<ControlServer>(directory_.path());
  directory_.log_event("start",
                       {{"step", from_step_}, {"devices", place::format_devices(plan.devices)}, {"pid", ::getpid()}});
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
      sentry_(nanoseconds(spec_.recovery.hang_seconds)),
      adviser_(spec_, Elasticity::from_json(state_.elasticity)) {
  block_signals();
  control_ = std::make_unique<ControlServer>(state_.listener, state_.clients);
  attach_memory();
  adviser_.companion().profiles = profile::Profiles::from_json(state_.profiles);
  sentry_.measure_on(devices_of(devices_in_force(job_)), *memory_, false);
  adviser_.begin_stage(job_, Step(trained()));
}

// Of any worker of this run, on that device; its number is still missing.
WorkerStart Launcher::worker_start(const Device& device) const {
  WorkerStart start;
  start.device = device;
  start.job = spec_.job;
  start.options.device = device.text();
  start.options.less_memory = job_.less_memory;
  start.options.allow_mixed = state_.options.allow_mixed || spec_.job.determinism == spec::Determinism::d2;
  start.options.cuda_streams = state_.options.cuda_streams;
  return start;
}

void Launcher::make_builder(WorkerStart& start) const {
  start.options.builds = true;
  start.options.checkpoint = checkpoint_;
  start.options.accepts_data = accepts_data_;
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
  std::ranges::copy(control_->polled(monotonic_ns()), std::back_inserter(polled));
  const size_t first_worker = polled.size();
  std::vector<WorkerId> workers;
  for (const auto& [id, worker] : state_.workers) {
    workers.push_back(id);
    polled.push_back({worker.socket.descriptor(), POLLIN, 0});
    polled.push_back({worker.process.descriptor(), POLLIN, 0});
  }
  const bool changes = job_.resize || job_.phase == Phase::recovering;
  ::poll(polled.data(), polled.size(), changes ? kTickWhileChangingMilliseconds : kTickMilliseconds);
  if (polled[0].revents != 0) on_signal();
  if (polled[1].revents != 0) on_scribe_message(0);
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
  control_->serve(
      std::span(polled).subspan(2, first_worker - 2),
      [this](ClientId client, const conduct::Request& request) { on_request(client, request, monotonic_ns()); },
      monotonic_ns());
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
  comm::WorkerReport report;
  switch (worker->socket.receive(&report, 0)) {
    case comm::Received::nothing:
      return;
    case comm::Received::closed:
      return on_worker_end(id);
    case comm::Received::message:
      break;
  }
  if (const auto* left = std::get_if<comm::LeftStage>(&report)) {
    decide(conduct::WorkerLeft{id, left->finished});
  } else if (const auto* failed = std::get_if<comm::Failed>(&report)) {
    on_worker_error(id, *failed);
  } else {
    decide(conduct::WorkerReady{id});
  }
}

void Launcher::on_worker_error(WorkerId id, const comm::Failed& failed) {
  faults::Evidence evidence;
  evidence.said = failed.error();
  lose(id, std::move(evidence));
}

void Launcher::on_worker_end(WorkerId id) {
  WorkerProcess* worker = process_of(id);
  if (worker == nullptr) return;
  comm::WorkerReport last_words;
  while (worker->socket && worker->socket.receive(&last_words, 0) == comm::Received::message) {
    if (const auto* failed = std::get_if<comm::Failed>(&last_words)) return on_worker_error(id, *failed);
  }
  lose(id, faults::Evidence{});
}

void Launcher::on_scribe_message(int milliseconds) {
  record::ScribeReport report;
  const comm::Received received = state_.scribe.socket.receive(&report, milliseconds);
  if (received == comm::Received::nothing) return;
  if (received == comm::Received::closed) {
    ChildEnd ended;
    state_.scribe.process.wait_for(kPatienceWithScribeMs, &ended);
    state_.scribe.socket.close();
    const bool done = job_.scribe.told_to_finish && !ended.signaled;
    if (done && (ended.code == 0 || job_.failure)) return decide(conduct::ScribeDone{});  // or it said why not
    return lose_scribe(ended, false);
  }
  std::visit([this](const auto& said) { on_scribe_report(said); }, report);
}

void Launcher::on_scribe_report(const record::Saved& saved) {
  directory_.log_event("checkpoint", comm::fields_of(saved));
  decide(conduct::Saved{saved.step});
}

void Launcher::on_scribe_report(const record::SaveFailed& failed) {
  directory_.log_event("checkpoint_failed", comm::fields_of(failed));
  printer_.note(fmt::format("warning: no checkpoint at step {}: {}", failed.step, failed.error));
  decide(conduct::NotSaved{failed.step, failed.error});
}

void Launcher::on_scribe_report(const record::Evaluated& evaluated) {
  state_.accuracy = evaluated.accuracy;
  printer_.note(
      fmt::format("step {}: {}test loss {}", evaluated.step,
                  evaluated.accuracy ? fmt::format("test accuracy {:.2f} %, ", 100 * *evaluated.accuracy) : "",
                  evaluated.loss ? fmt::format("{:.4f}", *evaluated.loss) : "not finite"));
}

void Launcher::on_scribe_report(const record::Skipped& skipped) {
  directory_.log_event("skipped", comm::fields_of(skipped));
  printer_.note(fmt::format("step {}: no update: {}", skipped.step, skipped.why));
}

void Launcher::on_scribe_report(const record::WriteFailed& failed) {
  directory_.log_event("write_failed", comm::fields_of(failed));
  write_error_ = failed.error;
  written_before_error_ = memory_ ? memory_->ring().drained() : 0;
  printer_.note(
      fmt::format("warning: {}; records wait in memory until there is room, and training with them", write_error_));
  decide(conduct::NotWritten{write_error_});
}

void Launcher::on_scribe_report(const comm::Failed& failed) { decide(conduct::ScribeFailed{failed.error()}); }

// What a request asks, done.
struct Launcher::Servant {
  Launcher& launcher;
  const ClientId client;
  const int64_t arrived_ns;

  void operator()(const conduct::StatusRequest&) const { launcher.control_->reply(client, launcher.status()); }
  void operator()(const conduct::StopRequest&) const {
    launcher.decide(conduct::StopAsked{.why = "asked to by `estrain stop`", .client = client});
  }
  void operator()(const conduct::ResizeRequest& resize) const { launcher.begin_resize(client, resize); }
  void operator()(const conduct::OfferRequest& offer) const { launcher.ask_offer(client, offer); }
  void operator()(const conduct::ReclaimRequest& reclaim) const { launcher.reclaim(client, reclaim, arrived_ns); }
};

void Launcher::on_request(ClientId client, const conduct::Request& request, int64_t arrived_ns) {
  try {
    std::visit(Servant{*this, client, arrived_ns}, request);
  } catch (const Error& error) {
    control_->reply(client, error_answer(error));
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
  adviser_.settle(profile_host(state_.cores), state_.options.allow_mixed);
}

}  // namespace estrain::launch

#include "core/run/launch/launcher/launcher.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <iterator>
#include <thread>
#include <utility>

#include "core/base/clock.h"
#include "core/base/files/poll_set.h"
#include "core/base/process/child_process.h"
#include "core/base/process/watched_signals.h"
#include "core/job/resources/allocation.h"
#include "core/state/run_directory/batch_changes.h"
#include "core/state/run_directory/passed_spec.h"
#include "core/state/run_directory/worker_library.h"

namespace estrain::launch {
namespace {

UniqueFd new_doorbell() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) throw system_error("cannot create an event descriptor", errno);
  return fd;
}

}  // namespace

Run::Run(LaunchPlan& plan)
    : spec(std::move(plan.spec)),
      journal(run_directory::RunDirectory(plan.run), spec.logging.every_seconds, false),
      descriptors{comm::JobMemory::create(),
                  new_doorbell(),
                  std::move(plan.lock),
                  run_directory::pass_spec(spec),
                  UniqueFd(::open(run_directory::worker_library().c_str(), O_RDONLY | O_CLOEXEC)),
                  new_doorbell()},
      origin{std::move(plan.checkpoint), std::move(plan.checkpoint_cpu), plan.accepts_data, plan.from_step,
             std::move(plan.changes)},
      memory(descriptors.memory.get(), origin.step) {
  std::error_code ignored;
  std::filesystem::remove_all(journal.directory.rows(), ignored);  // outputs of a launch that was killed
  state.run = plan.run;
  state.fault_rules = std::move(plan.fault_rules);
  state.options = plan.options;
  job.ests = spec.job.ests;
  job.from_step = origin.step;
  job.retries = spec.recovery.retries;
  job.host = plan.options.own_host;
  job.gpus_exchange = gpus_may_exchange(spec);
  job.grace_seconds = plan.grace_seconds;
  const resources::Allocation allocation = resources::current_allocation();
  state.times.ends = allocation.ends;
  state.cores = allocation.cores;
  state.processes.shared = descriptors.shared();
  state.times.started = MonotonicClock::now();
}

Run::Run(Handover handover)
    : spec(run_directory::read_passed_spec(handover.processes.shared.spec)),
      journal(run_directory::RunDirectory(handover.run), spec.logging.every_seconds, true),
      state(std::move(handover)),
      descriptors{UniqueFd(state.processes.shared.memory),  UniqueFd(state.processes.shared.doorbell),
                  UniqueFd(state.processes.shared.lock),    UniqueFd(state.processes.shared.spec),
                  UniqueFd(state.processes.shared.library), UniqueFd(state.processes.shared.courier)},
      memory(descriptors.memory.get(), 0),
      control(std::make_unique<ControlServer>(state.listener, state.clients)) {
  memory.attach();
  take_changes();
}

using decisions::RunPhase;

namespace {

constexpr auto kTick = 100ms;  // the loop turns at least this often
constexpr auto kTickWhileChanging = 2ms;

bool is_ignored(int signal) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

Launcher::Launcher(LaunchPlan plan) : run_(plan) {
  block_signals();
  crew_.start_first(plan.devices, run_.job);
  scribe_.start_first();
  run_.control = std::make_unique<ControlServer>(run_.journal.directory.path());
  run_.journal.log(
      "start", {{"step", run_.origin.step}, {"devices", placement::format_devices(plan.devices)}, {"pid", ::getpid()}});
}

Launcher::Launcher(Handover handover) : run_(std::move(handover)) {
  block_signals();
  speeds_.settle(run_.state.cores);
  speeds_.advise(ProfilesLoaded{profile::Profiles::from_json(run_.state.profiles)});
  scribe_.go_on(run_.state.accuracy);
  speeds_.go_on();
  begin_stage(false);
}

// Closes the socket to new clients. Clients that have connected before get an answer. If another launcher
// has taken the run, the socket in the directory is that launcher's.
Launcher::~Launcher() {
  const auto owner = run_.journal.directory.owner();
  if (!owner || owner->is_this_process()) ::unlink(run_.journal.directory.control_socket().c_str());
  if (run_.control)
    run_.control->turn_away(Error(Fault::usage, "the launcher has ended before it took this up")
                                .advise("`estrain status` says how it ended"));
}

int Launcher::run() {
  while (run_.job.phase != RunPhase::over) wait_for_events();
  return ending_.end([this] { close_files(); });
}

// Blocks the signals for ending the job: the launcher reads these signals from a descriptor. A signal ignored when the
// program began (nohup, a shell's background job) stays ignored. Ignores SIGPIPE: the reader of stdout may exit.
void Launcher::block_signals() {
  std::vector<int> numbers = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};
  std::erase_if(numbers, is_ignored);
  ::signal(SIGPIPE, SIG_IGN);
  signals_ = watch_signals(numbers);
}

// Runs a round: sleeps until something happens, then handles what has happened.
void Launcher::wait_for_events() {
  std::vector<pollfd> polled = {{signals_.get(), POLLIN, 0}, {processes_.scribe.socket.descriptor(), POLLIN, 0}};
  std::ranges::copy(run_.control->polled(MonotonicClock::now()), std::back_inserter(polled));
  const size_t workers = polled.size();
  worker_events_.watch(processes_.workers, [](const WorkerProcess& worker) {
    return std::pair(worker.socket.descriptor(), worker.process.descriptor());
  });
  polled.push_back({worker_events_.descriptor(), POLLIN, 0});
  if (processes_.courier) polled.push_back({processes_.courier->socket.descriptor(), POLLIN, 0});
  const bool changes = run_.job.resize || run_.job.phase == RunPhase::recovering ||
                       (run_.job.phase == RunPhase::pausing && all_left(run_.job));
  poll_within(polled, changes ? kTickWhileChanging : kTick);
  if (polled[0].revents != 0) on_signal();
  if (polled[1].revents != 0) decide(scribe_.hear(0ms));
  if (workers + 1 < polled.size() && polled[workers + 1].revents != 0) decide(hosts_.hear());
  if (polled[workers].revents != 0) hear_workers();
  serve_clients(std::span(polled).subspan(2, workers - 2));
  tick();
}

// Handles the events of workers, one for each worker. A handler may remove workers: the crew ignores their events.
void Launcher::hear_workers() {
  for (const WorkerEvents::Event& event : worker_events_.take()) {
    if (run_.job.phase == RunPhase::over) return;
    decide(event.has_message ? crew_.hear(event.worker) : crew_.note_end(event.worker));
  }
}

// While the run is closed.
void Launcher::hear_users() {
  on_signal();
  std::vector<pollfd> polled = run_.control->polled(MonotonicClock::now());
  if (poll_within(polled, 0ms) > 0) serve_clients(polled);
}

void Launcher::serve_clients(std::span<const pollfd> polled) {
  const auto serve = [this](ClientId client, const decisions::Request& request) {
    decide(requests_.serve({client, request, MonotonicClock::now()}, moment()));
  };
  run_.control->serve(polled, serve, MonotonicClock::now());
}

// Decides an event. Answers of actions come first: the launcher looks at nothing else meanwhile.
void Launcher::decide(std::optional<decisions::Event> event) {
  if (!event) return;
  events_.add(std::move(*event), [this](const decisions::Event& next) {
    for (const decisions::Action& action : decisions::decide(run_.job, next, moment())) carry_out(action);
  });
}

decisions::Moment Launcher::moment() const {
  decisions::Moment now;
  now.time = MonotonicClock::now();
  now.trained = Step(run_.trained());
  if (!run_.memory) return now;
  now.attached = true;
  now.stopped = monotonic_time(run_.memory->gate().stopped_ns());
  now.stage_started = run_.memory->gate().started();
  now.stage_started_at = monotonic_time(run_.memory->gate().started_ns());
  now.step_seconds = speeds_.step_seconds();
  now.no_room = scribe_.no_room();
  return now;
}

void Launcher::on_signal() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    requests_.forget_batch_change();
    decide(decisions::StopAsked{.why = signal_name(static_cast<int>(info.ssi_signo)), .insists = true});
  }
}

void Launcher::tick() {
  supervise();
  decide(decisions::Tick{});
  while (is_settled(run_.job) && !run_.job.waiting.empty()) decide(decisions::Tick{});
  if (run_.job.phase == RunPhase::training) speeds_.note_first_step();
  if (run_.job.phase == RunPhase::starting || run_.job.phase == RunPhase::over || !run_.memory) return;
  hosts_.serve_agents();
  const MonotonicTime now = MonotonicClock::now();
  if (run_.journal.printer.due(now) && speeds_.has_steps() && scribe_.no_room().empty())
    run_.journal.printer.show(report_.progress(), now);
}

// Looks for hangs and for the allocation's end, and follows the speed.
void Launcher::supervise() {
  const MonotonicTime now = MonotonicClock::now();
  supervision_.begin_round(now);
  decide(supervision_.find_allocation_end(run_.state.times.ends, now));
  if (run_.job.phase == RunPhase::over) return;
  supervision_.end_stopped_relay(now);
  decide(supervision_.find_stopped_worker(now));
  if (run_.job.phase != RunPhase::over && supervision_.scribe_hangs(now)) decide(scribe_.end_hung());
  if (!run_.memory || run_.job.phase == RunPhase::over) return;
  if (auto hang = supervision_.find_hung_worker(now)) return decide(std::move(hang));
  decide(speeds_.watch());
}

// Measures the workers of the stage in force from here on. `anew`: the stage begins.
void Launcher::begin_stage(bool anew) {
  supervision_.begin_stage(anew);
  speeds_.begin_stage();
}

// Runs on until the last state is saved and the files are closed.
void Launcher::close_files() {
  std::error_code ignored;  // outputs of an evaluation under way: the last state may need their room
  std::filesystem::remove_all(run_.journal.directory.rows(), ignored);
  decide(decisions::EndBegan{});
  decide(decisions::Tick{});
  while (run_.job.closing != decisions::Closing::closed) {
    if (processes_.scribe.socket) {
      decide(scribe_.hear(kTick));
    } else {
      std::this_thread::sleep_for(kTick);
    }
    hear_users();
    const MonotonicTime now = MonotonicClock::now();
    if (supervision_.scribe_hangs(now)) decide(scribe_.end_hung());
    supervision_.show_life(now);
    decide(decisions::Tick{});
  }
}

// Puts a change of the batch on record, for the steps after the last one, while no worker is in its loop. Returns the
// answer for the client: a refusal where the batch could not be trained. Throws Fault::io.
Json Launcher::change_batch(const decisions::ChangeRequest& asked) {
  const batches::BatchChange change =
      run_directory::changed(run_.spec, Step(run_.trained()), asked.batch, asked.lr_factor);
  try {
    run_directory::require_trainable(run_.spec, run_.memory.manifest().batches, change, asked.one_sample_error);
  } catch (const Error& refusal) {
    return error_answer(refusal);
  }
  speeds_.keep_profiles();  // with the batch until now
  run_directory::record_batch_change(run_.journal.directory, run_.spec, change);
  run_.memory->batch_changes().add(change);
  run_.memory->clock().set_longest({});
  run_.take_changes();
  return {{"ok", true}, {"step", change.after}, {"batch", change.batch}, {"lr_factor", change.lr_factor}};
}

// Re-execs. This launcher continues if exec fails or events wait for a decision.
void Launcher::hand_over() {
  if (!events_.is_empty()) return;
  Handover& state = run_.state;
  state.changes = speeds_.adviser().past.to_json();
  state.profiles = speeds_.adviser().planner->profiles.to_json();
  state.accuracy = scribe_.accuracy();
  state.listener = run_.control->listener();
  state.clients = run_.control->clients();
  reexec(state);
}

}  // namespace estrain::launch

#include "core/run/launch/launcher/launcher.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <utility>

#include "core/base/clock.h"
#include "core/base/process/child_process.h"
#include "core/base/process/watched_signals.h"

namespace estrain::launch {

using decisions::Phase;
using decisions::WorkerId;

namespace {

constexpr int kTickWhileChangingMilliseconds = 2;

bool is_ignored(int signal) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

Launcher::Launcher(LaunchPlan plan) : run_(plan) {
  listen();
  crew_.start_first(plan.devices);
  scribe_.start_first();
  run_.control = std::make_unique<ControlServer>(run_.directory.path());
  run_.directory.log_event(
      "start", {{"step", run_.origin.step}, {"devices", placement::format_devices(plan.devices)}, {"pid", ::getpid()}});
}

Launcher::Launcher(Handover handover) : run_(std::move(handover)) {
  listen();
  stages_.go_on();
}

// Closes the socket to new clients. Clients that have connected before get an answer.
Launcher::~Launcher() {
  ::unlink(run_.directory.control_socket().c_str());
  if (run_.control)
    run_.control->turn_away(Error(Fault::usage, "the launcher has ended before it took this up")
                                .advise("`estrain status` says how it ended"));
}

void Launcher::listen() {
  block_signals();
  run_.decide = [this](decisions::Event event) { decide(std::move(event)); };
  run_.moment = [this] { return moment(); };
}

int Launcher::run() {
  while (run_.job.phase != Phase::over) wait_for_events();
  return ending_.end();
}

// Blocks the signals for ending the job: the launcher reads these signals from a descriptor. A signal ignored when the
// program began (nohup, a shell's background job) stays ignored. Ignores SIGPIPE: the reader of stdout may exit.
void Launcher::block_signals() {
  std::vector<int> numbers = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};
  std::erase_if(numbers, is_ignored);
  ::signal(SIGPIPE, SIG_IGN);
  signals_ = watch_signals(numbers);
}

// Runs a round: sleeps until something happens, then handles the event. Handlers change the set of workers: each round
// polls anew and handles the event of a single worker at most.
void Launcher::wait_for_events() {
  std::vector<pollfd> polled = {{signals_.get(), POLLIN, 0}, {run_.state.scribe.socket.descriptor(), POLLIN, 0}};
  std::ranges::copy(run_.control->polled(monotonic_ns()), std::back_inserter(polled));
  const size_t first_worker = polled.size();
  std::vector<WorkerId> workers;
  for (const auto& [id, worker] : run_.state.workers) {
    workers.push_back(id);
    polled.push_back({worker.socket.descriptor(), POLLIN, 0});
    polled.push_back({worker.process.descriptor(), POLLIN, 0});
  }
  const size_t courier = polled.size();
  if (run_.state.courier) polled.push_back({run_.state.courier->socket.descriptor(), POLLIN, 0});
  const bool changes = run_.job.resize || run_.job.phase == Phase::recovering;
  ::poll(polled.data(), polled.size(), changes ? kTickWhileChangingMilliseconds : kTickMilliseconds);
  if (polled[0].revents != 0) on_signal();
  if (polled[1].revents != 0) scribe_.hear(0);
  if (courier < polled.size() && polled[courier].revents != 0) hosts_.hear();
  for (size_t i = 0; i < workers.size(); ++i) {
    if ((polled[first_worker + 2 * i].revents & POLLIN) != 0) {
      crew_.hear(workers[i]);
      break;
    }
    if (polled[first_worker + 2 * i + 1].revents != 0) {
      crew_.note_end(workers[i]);
      break;
    }
  }
  serve_clients(std::span(polled).subspan(2, first_worker - 2));
  tick();
}

// While the run is closed.
void Launcher::hear_users() {
  on_signal();
  std::vector<pollfd> polled = run_.control->polled(monotonic_ns());
  if (::poll(polled.data(), polled.size(), 0) > 0) serve_clients(polled);
}

void Launcher::serve_clients(std::span<const pollfd> polled) {
  const auto serve = [this](ClientId client, const decisions::Request& request) {
    requests_.serve(client, request, monotonic_ns());
  };
  run_.control->serve(polled, serve, monotonic_ns());
}

// Decides an event. Answers of actions come first: the launcher looks at nothing else meanwhile.
void Launcher::decide(decisions::Event event) {
  events_.add(std::move(event), [this](const decisions::Event& next) {
    for (const decisions::Action& action : decisions::decide(run_.job, next, moment())) carry_out(action);
  });
}

decisions::Moment Launcher::moment() const {
  decisions::Moment now;
  now.ns = monotonic_ns();
  now.trained = Step(run_.trained());
  if (!run_.memory) return now;
  now.attached = true;
  now.stopped_ns = run_.memory->gate().stopped_ns();
  now.stage_started = run_.memory->gate().started();
  now.stage_started_ns = run_.memory->gate().started_ns();
  now.step_seconds = stages_.step_seconds();
  now.no_room = scribe_.no_room();
  return now;
}

void Launcher::on_signal() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    run_.change.reset();
    decide(decisions::StopAsked{.why = signal_name(static_cast<int>(info.ssi_signo)), .insists = true});
  }
}

void Launcher::tick() {
  supervision_.look_after();
  decide(decisions::Tick{});
  while (is_settled(run_.job) && !run_.job.waiting.empty()) decide(decisions::Tick{});
  if (run_.job.phase == Phase::training) stages_.note_first_step();
  if (run_.job.phase == Phase::starting || run_.job.phase == Phase::over || !run_.memory) return;
  hosts_.serve_agents();
  const int64_t now = monotonic_ns();
  if (run_.printer.due(now) && stages_.has_steps() && scribe_.no_room().empty())
    run_.printer.show(report_.progress(), now);
}

// Re-execs. This launcher continues if exec fails or events wait for a decision.
void Launcher::hand_over() {
  if (!events_.is_empty()) return;
  Handover& state = run_.state;
  state.changes = run_.adviser.past().to_json();
  state.profiles = run_.adviser.speed_planner().profiles.to_json();
  state.listener = run_.control->listener();
  state.clients = run_.control->clients();
  reexec(state);
}

}  // namespace estrain::launch

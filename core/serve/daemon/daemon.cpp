#include "core/serve/daemon/daemon.h"

#include <poll.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <span>

#include "core/base/clock.h"
#include "core/base/process/watched_signals.h"
#include "core/launch/preflight/devices.h"
#include "core/place/assignment.h"

namespace estrain::serve {
namespace {

constexpr int kTickMs = 100;

// Reports errors in the options before anything is created.
std::string checked_directory(const ServeOptions& options) {
  std::string path = std::filesystem::absolute(options.directory).lexically_normal().string();
  if (options.devices.empty() && !PoolDirectory(path).has_pool()) {
    throw Error::make(Fault::usage, "{}: a new pool needs devices", options.directory)
        .advise("estrain pool serve " + options.directory + " --devices cpu*4; or none, where agents bring them all");
  }
  for (const std::string& device : names_in(options.devices)) {
    if (!dispatch::Slot{0, device}.host().empty())
      throw Error::make(Fault::usage, "{}: devices of other hosts come with an agent there", device)
          .advise("estrain agent --pool " + options.directory);
  }
  if (!options.devices.empty() && options.devices != kNoDevices)
    launch::check_devices(place::devices_of(launch::parse_devices(options.devices)),
                          {.mixed = true, .oversubscribed = false});
  if (!options.policy.empty()) pool::make_policy(options.policy, options.seed);
  return path;
}

// The pool's devices become those of the list: what is missing is added, what is too many is let go of.
void settle_devices(dispatch::Dispatcher& dispatcher, const std::string& list) {
  std::vector<std::string> added, removed;
  for (const dispatch::Slot& slot : dispatcher.state().slots) {
    if (!slot.for_good && slot.host().empty()) removed.push_back(slot.name);
  }
  for (const std::string& name : names_in(list)) {
    const auto there = std::ranges::find(removed, name);
    if (there == removed.end()) {
      added.push_back(name);
    } else {
      removed.erase(there);
    }
  }
  const double now = wall_seconds();
  if (!added.empty()) dispatcher.add_devices(added, now);
  if (!removed.empty()) dispatcher.withdraw({removed, dispatch::kNoHurry, true, 0}, now);
}

}  // namespace

Daemon::Daemon(const ServeOptions& options)
    : pool_(checked_directory(options), options.name), host_news_(pool_, commands_, news_, chronicle_, options.nodes) {
  dispatch::State state = chronicle_.load();
  if (state.policy.empty()) state.seed = options.seed;
  if (!options.policy.empty()) state.policy = options.policy;
  if (state.policy.empty()) state.policy = kDefaultPolicy;
  const double seen = state.seen;
  pool_.dispatcher.emplace(std::move(state), options.settings);
  signals_ = watch_signals(std::array{SIGTERM, SIGINT});
  server_.emplace(pool_.directory.path());
  requests_.emplace(pool_, chronicle_, *server_);
  if (seen > 0) chronicle_.add({seen, 0, "away", 0, "the daemon was seen last"});
  take_up_jobs();
  if (seen > 0) chronicle_.add({wall_seconds(), 0, "served", 0, "by another daemon"});
  if (!options.devices.empty()) settle_devices(*pool_.dispatcher, options.devices);
  const auto is_in_queue = [](const auto& entry) { return !dispatch::is_over(entry.second.phase); };
  fmt::print("pool {}: {} devices, policy {}, {} jobs in the queue\n", pool_.directory.path(),
             pool_.state().slots.size(), pool_.state().policy, std::ranges::count_if(pool_.state().jobs, is_in_queue));
  std::fflush(stdout);
}

// Finds the launchers that an earlier daemon left at work, and jobs whose launchers have ended meanwhile.
void Daemon::take_up_jobs() {
  host_news_.take_up();
  std::vector<JobId> up;
  for (const auto& [id, job] : pool_.state().jobs) {
    if (dispatch::is_up(job.phase)) up.push_back(id);
  }
  for (const JobId id : up) {
    const bool changes = pool_.job(id).phase == dispatch::Phase::changing;
    news_.take_up(id, changes ? chronicle_.asked(id) : 0);
  }
}

int Daemon::run() {
  pool_.dispatcher->tick(wall_seconds());  // the pool is served from here on, not from the first poll on
  do_actions();
  while (true) {
    poll_once();
    signalfd_siginfo info;
    if (::read(signals_.get(), &info, sizeof info) == sizeof info) break;
    host_news_.tend();
    do_actions();  // before jobs are looked at: a job that was not asked yet has no answer to lose
    news_.look_at_jobs();
    pool_.dispatcher->tick(wall_seconds());
    do_actions();
    chronicle_.save();
    pool_.agents.flush();  // what is ordered is on the disk: no later daemon orders it again
  }
  chronicle_.save_all();
  fmt::print("pool {}: the daemon ends, jobs go on; take them up again: estrain pool serve {}\n",
             pool_.directory.path(), pool_.directory.path());
  return 0;
}

void Daemon::poll_once() {
  std::vector<pollfd> waiting;
  const auto add = [&](int fd) { waiting.push_back({fd, POLLIN, 0}); };
  add(signals_.get());
  for (const auto& [id, check] : checks_.processes()) add(check.descriptor());
  for (const auto& [id, launcher] : pool_.launchers) add(launcher.process.descriptor());
  for (const auto& [id, asked] : pool_.asked) add(asked.command.descriptor());
  const std::vector<pollfd> clients = server_->polled(monotonic_ns());
  waiting.insert(waiting.end(), clients.begin(), clients.end());
  ::poll(waiting.data(), waiting.size(), kTickMs);
  const auto is_ready = [&](int fd) {
    const auto at = std::ranges::find(waiting, fd, &pollfd::fd);
    return at != waiting.end() && at->revents != 0;
  };
  const auto ready_jobs = [&](const auto& processes, const auto& descriptor) {
    std::vector<JobId> ids;
    for (const auto& [id, process] : processes) {
      if (is_ready(descriptor(process))) ids.push_back(id);
    }
    return ids;
  };
  const auto of_check = [](const ChildProcess& check) { return check.descriptor(); };
  const auto of_launcher = [](const Launcher& launcher) { return launcher.process.descriptor(); };
  const auto of_asked = [](const Asked& asked) { return asked.command.descriptor(); };
  // All are looked up before any is acted on: numbers of descriptors are given again.
  const std::vector<JobId> answers = ready_jobs(pool_.asked, of_asked), ends = ready_jobs(pool_.launchers, of_launcher),
                           checks = ready_jobs(checks_.processes(), of_check);
  for (const JobId id : answers) news_.on_answer(id, pool_.asked[id].command.wait());
  for (const JobId id : ends) {
    std::optional<ChildEnd> end;
    if (pool_.launchers[id].is_child) end = pool_.launchers[id].process.wait();
    news_.on_launcher_ended(id, end);
  }
  for (const JobId id : checks) checks_.on_ended(id);
  server_->serve_objects(
      std::span(waiting).last(clients.size()),
      [this](launch::ClientId client, const Json& request) { requests_->on_request(client, request); }, monotonic_ns());
}

template <typename Action>
void Daemon::carry_out(const Action& action) {
  if constexpr (std::is_same_v<Action, dispatch::CheckJob>) {
    checks_.carry_out(action);
  } else if constexpr (std::is_same_v<Action, dispatch::Released>) {
    requests_->carry_out(action);
  } else if constexpr (std::is_same_v<Action, dispatch::Note>) {
    chronicle_.carry_out(action);
  } else {
    commands_.carry_out(action);
  }
}

// Actions may bring about events, and those further actions.
void Daemon::do_actions() {
  for (std::vector<dispatch::Action> actions = pool_.dispatcher->take_actions(); !actions.empty();
       actions = pool_.dispatcher->take_actions()) {
    for (const dispatch::Action& action : actions) {
      std::visit([this](const auto& one) { carry_out(one); }, action);
    }
  }
}

}  // namespace estrain::serve

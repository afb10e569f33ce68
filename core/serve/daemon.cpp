#include "core/serve/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <span>

#include "core/base/clock.h"
#include "core/base/files/file_lock.h"
#include "core/base/json/json_fields.h"
#include "core/base/json/json_text.h"
#include "core/base/process/watched_signals.h"
#include "core/launch/directory/run_directory.h"
#include "core/launch/preflight/devices.h"
#include "core/place/assignment.h"
#include "core/serve/hosts/job_look.h"
#include "core/serve/run_end.h"

namespace estrain::serve {
namespace {

constexpr int kTickMs = 100;
constexpr int kPatienceAtFirstMs = 5000;  // with a launcher that an earlier daemon left
constexpr double kSaveEvery = 1;          // s, where nothing but figures has changed

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

std::vector<std::string> others(std::vector<std::string> nodes, const std::string& own) {
  std::erase(nodes, own);
  return nodes;
}

bool is_locked(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  return file && !take_lock(file.get(), path);
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
  if (!removed.empty()) dispatcher.withdraw({removed, dispatch::Dispatcher::kNoHurry, true, 0}, now);
}

}  // namespace

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::vector<std::string> names_in(const std::string& devices) {
  if (devices.empty() || devices == kNoDevices) return {};
  return place::texts_of(place::devices_of(launch::parse_devices(devices)));
}

Daemon::Daemon(const ServeOptions& options)
    : directory_(checked_directory(options)),
      lock_(directory_.lock()),
      name_(options.name),
      agents_(directory_.path(), name_),
      slurm_agents_(directory_.path(), others(options.nodes, name_)),
      ledger_(Ledger::open(directory_.database())) {
  dispatch::State state = ledger_.load();
  if (state.policy.empty()) state.seed = options.seed;
  if (!options.policy.empty()) state.policy = options.policy;
  if (state.policy.empty()) state.policy = kDefaultPolicy;
  const double seen = state.seen;
  dispatcher_.emplace(std::move(state), options.settings);
  signals_ = watch_signals(std::array{SIGTERM, SIGINT});
  server_.emplace(directory_.path());
  if (seen > 0) {
    writing_.lines.push_back({seen, 0, "away", 0, "the daemon was seen last"});
    writing_.lines.push_back({wall_seconds(), 0, "served", 0, "by another daemon"});
  }
  take_up_jobs();
  if (!options.devices.empty()) settle_devices(*dispatcher_, options.devices);
  fmt::print("pool {}: {} devices, policy {}, {} jobs in the queue\n", directory_.path(),
             dispatcher_->state().slots.size(), dispatcher_->state().policy,
             std::ranges::count_if(dispatcher_->state().jobs,
                                   [](const auto& entry) { return !dispatch::is_over(entry.second.phase); }));
  std::fflush(stdout);
}

// Finds the launchers that an earlier daemon left at work, and jobs whose launchers have ended meanwhile.
void Daemon::take_up_jobs() {
  std::vector<std::string> lost;
  for (const dispatch::Slot& slot : dispatcher_->state().slots) {
    const std::string host = slot.host();
    if (!host.empty() && !agents_.is_member(host) && std::ranges::find(lost, host) == lost.end()) lost.push_back(host);
  }
  for (const std::string& host : lost) on(host, HostLost{"its agent was gone when the daemon began"});
  std::vector<JobId> up;
  for (const auto& [id, job] : dispatcher_->state().jobs) {
    if (dispatch::is_up(job.phase)) up.push_back(id);
  }
  for (const JobId id : up) take_up(id);
}

// A number of a process proves nothing: after a restart of the host it may be another's. The lock of the run does.
void Daemon::take_up(JobId id) {
  if (!agents_.tasks_of(id).empty() || !dispatcher_->state().jobs.at(id).home.empty()) take_up_elsewhere(id);
  if (launchers_.contains(id) || orphans_.contain(id)) return;
  const std::string run = directory_.run(id);
  const std::optional<launch::RunOwner> owner = launch::RunDirectory(run).owner();
  if (!is_locked(launch::RunDirectory(run).lock_file()) || !owner || !owner->is_here() || owner->has_ended()) {
    const bool began = launch::RunDirectory(run).has_run();
    const dispatch::Ended never{dispatch::Ended::How::stopped, "it had not begun"};
    return dispatcher_->ended(id, began ? run_end(run, std::nullopt, directory_.train_log(id)) : never, wall_seconds());
  }
  launchers_[id] = {.process = ChildProcess::adopt(owner->pid), .is_child = false};
  const std::optional<Json> status = look_at_run(run, kPatienceAtFirstMs);
  if (!status || !status->contains("held")) return;
  tell_batch(id, *status);
  // While another batch takes a new launch, the launcher takes no requests: a later look tells.
  if (dispatcher_->state().jobs.at(id).batch.wanted == 0 || text_in(*status, "state").value_or("") == "training")
    dispatcher_->found(id, pool_names(status->at("held"), "", name_), wall_seconds());
}

int Daemon::run() {
  while (true) {
    poll_once();
    signalfd_siginfo info;
    if (::read(signals_.get(), &info, sizeof info) == sizeof info) break;
    tend_hosts();
    do_actions();  // before jobs are looked at: who was not asked yet has no answer to lose
    look_at_jobs();
    dispatcher_->tick(wall_seconds());
    do_actions();
    save();
    agents_.flush();  // what is ordered is on the disk: no later daemon orders it again
  }
  writing_.saved = 0;
  save();
  fmt::print("pool {}: the daemon ends, jobs go on; take them up again: estrain pool serve {}\n", directory_.path(),
             directory_.path());
  return 0;
}

void Daemon::poll_once() {
  std::vector<pollfd> waiting;
  const auto add = [&](int fd) { waiting.push_back({fd, POLLIN, 0}); };
  add(signals_.get());
  for (const auto* helpers : {&checks_, &launchers_}) {
    for (const auto& [id, helper] : *helpers) add(helper.process.descriptor());
  }
  for (const auto& [id, asked] : asked_) add(asked.command.descriptor());
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
  const auto of_helper = [](const Helper& helper) { return helper.process.descriptor(); };
  const auto of_asked = [](const Asked& asked) { return asked.command.descriptor(); };
  // All are looked up before any is acted on: numbers of descriptors are given again.
  const std::vector<JobId> answers = ready_jobs(asked_, of_asked), ends = ready_jobs(launchers_, of_helper),
                           checks = ready_jobs(checks_, of_helper);
  for (const JobId id : answers) on_answer(id, asked_[id].command.wait());
  for (const JobId id : ends) {
    std::optional<ChildEnd> end;
    if (launchers_[id].is_child) end = launchers_[id].process.wait();
    on_launcher_ended(id, end);
  }
  for (const JobId id : checks) on_check_ended(id);
  server_->serve_objects(
      std::span(waiting).last(clients.size()),
      [this](launch::ClientId client, const Json& request) { on_request(client, request); }, monotonic_ns());
}

// Actions may bring about events, and those further actions.
void Daemon::do_actions() {
  for (std::vector<dispatch::Action> actions = dispatcher_->take_actions(); !actions.empty();
       actions = dispatcher_->take_actions()) {
    for (const dispatch::Action& action : actions) {
      std::visit([this](const auto& one) { carry_out(one); }, action);
    }
  }
}

// A disk that is full keeps nobody from training: what is to be written waits.
void Daemon::save() {
  const double now = wall_seconds();
  const double saved = writing_.saved;
  if (writing_.lines.empty() && now < saved + kSaveEvery && now >= saved) return;
  if (writing_.is_behind && now < saved + 1 && now >= saved) return;
  writing_.saved = now;
  try {
    ledger_.save(dispatcher_->state(), writing_.lines);
    writing_.lines.clear();
    if (writing_.is_behind) fmt::print("pool: the queue is written again\n");
    writing_.is_behind = false;
  } catch (const Error& error) {
    if (!writing_.is_behind)
      fmt::print(stderr, "warning: the queue cannot be written: {}; it is tried again\n", error.message());
    writing_.is_behind = true;
  }
}

void Daemon::carry_out(const dispatch::Note& note) {
  writing_.lines.push_back({wall_seconds(), note.job, note.what, note.devices, note.reason});
  const auto job = dispatcher_->state().jobs.find(note.job);
  const std::string who =
      job == dispatcher_->state().jobs.end() ? "pool" : fmt::format("job {} ({})", note.job, job->second.request.name);
  fmt::print("{} {}: {}, {} devices: {}\n", utc_timestamp(), who, note.what, note.devices, note.reason);
  std::fflush(stdout);
}

}  // namespace estrain::serve

#include "core/pool/daemon/daemon.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/base/clock.h"
#include "core/base/files/poll_set.h"
#include "core/job/placement/assignment.h"
#include "core/planning/dispatch/slots.h"
#include "core/pool/daemon/own_devices.h"
#include "core/pool/hosts/pool_agent.h"
#include "core/pool/run_past.h"
#include "core/run/launch/preflight/devices.h"

namespace estrain::pool {
namespace {

constexpr auto kTick = 100ms;

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
    launch::check_devices(placement::devices_of(launch::parse_devices(options.devices)),
                          {.mixed = true, .oversubscribed = false});
  if (!options.policy.empty()) scheduling::make_policy_for_real_jobs(options.policy, options.seed);
  return path;
}

// Numbers of jobs: "1", "1 to 3", "1, 2, 5 and 9 more"
std::string numbers_of(const std::vector<dispatch::JobId>& jobs) {
  constexpr size_t kMost = 5;
  if (jobs.size() > 2 && jobs.back() - jobs.front() + 1 == std::ssize(jobs))
    return fmt::format("{} to {}", jobs.front(), jobs.back());
  const size_t shown = std::min(jobs.size(), kMost);
  return fmt::format("{}{}", fmt::join(jobs.begin(), jobs.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     shown < jobs.size() ? fmt::format(" and {} more", jobs.size() - shown) : "");
}

std::vector<std::string> others(std::vector<std::string> nodes, const std::string& own) {
  std::erase(nodes, own);
  return nodes;
}

// News for the history: Daemon::write_down() carries these actions out.
template <typename Action>
constexpr bool is_news = std::is_same_v<Action, dispatch::WriteHistory> || std::is_same_v<Action, dispatch::KeepEnd>;

}  // namespace

Daemon::Daemon(const ServeOptions& options, UniqueFd end)
    : directory_(checked_directory(options)),
      lock_(directory_.lock()),
      hosts_(directory_.path(), options.name),
      chronicle_(Ledger::open(directory_.database())),
      dispatcher_(first_state(options), options.settings),
      slurm_agents_(directory_.path(), others(options.nodes, options.name)),
      server_(directory_.path(), options.group),
      end_(std::move(end)) {
  const double seen = state().seen;
  if (seen > 0) chronicle_.add({seen, 0, "away", 0, "the daemon was seen last"});
  take_up_jobs();
  if (seen > 0) chronicle_.add({wall_seconds(), 0, "served", 0, "by another daemon"});
  const double memory = options.memory ? static_cast<double>(*options.memory) : memory_for_jobs();
  dispatcher_.tell(dispatch::MemoryKnown{"", memory, memory_of_gpus()});
  if (options.rack) dispatcher_.tell(dispatch::RackKnown{"", *options.rack});
  if (!options.devices.empty()) settle_devices(dispatcher_, names_in(options.devices), wall_seconds());
  const auto is_in_queue = [](const auto& entry) { return !dispatch::is_over(entry.second.phase); };
  fmt::print("pool {}: {} devices, policy {}, {} jobs in the queue\n", directory_.path(), state().slots.size(),
             state().policy, std::ranges::count_if(state().jobs, is_in_queue));
  std::fflush(stdout);
}

// The state left by an earlier daemon, with the policy of the options.
dispatch::State Daemon::first_state(const ServeOptions& options) {
  dispatch::State state = chronicle_.load();
  if (state.policy.empty()) state.seed = options.seed;
  if (!options.policy.empty()) state.policy = options.policy;
  if (state.policy.empty()) state.policy = kDefaultPolicy;
  state.tolerance = options.tolerance.value_or(state.tolerance);
  if (!options.policy.empty())
    dispatch::require_known(scheduling::make_policy(options.policy, state.seed), dispatch::types_with(state, {}));
  number_above_folders(state);
  return state;
}

// The queue may have been lost, or be an old copy: new jobs get no folder, and no run, of a job missing in the queue.
void Daemon::number_above_folders(dispatch::State& state) {
  std::vector<JobId> unknown = directory_.jobs();
  std::erase_if(unknown, [&](JobId id) { return id <= state.last_job; });
  if (unknown.empty()) return;
  state.last_job = unknown.back();
  std::vector<JobId> at_work;
  std::ranges::copy_if(unknown, std::back_inserter(at_work),
                       [&](JobId id) { return somebody_is_at_work(directory_.run(id)); });
  const std::string words = fmt::format(
      "the queue does not know the jobs whose folders are in jobs: {}; pool.db was lost, or is an older one. New jobs "
      "are numbered from {}{}",
      numbers_of(unknown), state.last_job + 1,
      at_work.empty()
          ? ""
          : fmt::format(". Still at work, on devices that the pool takes for free: {}", numbers_of(at_work)));
  fmt::print(stderr,
             "warning: pool {}: {}.\nPut pool.db back, or end these runs (estrain stop {}/N/run) and submit their "
             "job.toml again.\n",
             directory_.path(), words, directory_.path() + "/jobs");
  chronicle_.add({wall_seconds(), 0, "unknown", 0, words});
}

// Finds launchers of an earlier daemon still at work, and jobs with launchers ended meanwhile. A job whose start is not
// on the disk comes last: by then the devices of ended jobs are free.
void Daemon::take_up_jobs() {
  host_news_.take_up();
  std::vector<JobId> up, others;
  for (const auto& [id, job] : state().jobs) {
    if (!dispatch::is_over(job.phase)) (dispatch::is_up(job.phase) ? up : others).push_back(id);
  }
  for (const JobId id : up) {
    const bool changes = state().jobs.at(id).phase == dispatch::Phase::changing;
    news_.take_up(id, changes ? chronicle_.asked(id) : 0);
  }
  for (const JobId id : others) news_.take_up_unsaved(id);
}

int Daemon::run() {
  begin();
  while (turn(kTick)) {
  }
  end();
  return 0;
}

void Daemon::begin() {
  dispatcher_.tell(dispatch::TimePassed{});  // the pool is served from now on, not only from the first turn on
  do_actions();
}

bool Daemon::turn(std::chrono::milliseconds limit) {
  if (!hear(limit)) return false;
  directory_.keep_lock(lock_);
  // A job with an unsent request has no answer to lose: the job is asked before the daemon looks at the job.
  do_actions();
  tend();
  do_actions();
  news_.look_at_jobs();
  dispatcher_.tell(dispatch::TimePassed{});
  do_actions();
  chronicle_.save(state());
  hosts_.agents.flush(!chronicle_.is_behind());  // all orders are on the disk: no later daemon repeats an order
  return true;
}

// Hears the news of other hosts, and starts agents and commands there.
void Daemon::tend() {
  for (const dispatch::WriteHistory& note : host_news_.tend()) chronicle_.note(note, state());
  for (const SlurmAgents::StepEnd& end : slurm_agents_.tend(hosts_.agents.members(), seconds(monotonic_ns()))) {
    const std::string words = fmt::format("node {}: {}; it is started again", end.node, end.how);
    chronicle_.note({0, "no agent", 0, words}, state());
  }
  commands_.tend();
  checks_.start();
}

void Daemon::end() {
  do_actions();
  chronicle_.save_all(state());
  hosts_.agents.flush(!chronicle_.is_behind());
  fmt::print("pool {}: the daemon ends, jobs continue; take them up again: estrain pool serve {}\n", directory_.path(),
             directory_.path());
}

bool Daemon::hear(std::chrono::milliseconds limit) {
  PollSet ready;
  bool ends_itself = false;
  ready.add(end_.get(), POLLIN, [&](int16_t) { ends_itself = true; });
  // No event is handled before all are known: numbers of closed descriptors are used again.
  std::vector<JobId> checks, ends, answers;
  const auto note_in = [](std::vector<JobId>& ids, JobId id) { return [&ids, id](int16_t) { ids.push_back(id); }; };
  for (const auto& [id, check] : checks_.processes()) ready.add(check.descriptor(), POLLIN, note_in(checks, id));
  for (const auto& [id, launcher] : processes_.launchers)
    ready.add(launcher.process.descriptor(), POLLIN, note_in(ends, id));
  for (const auto& [id, command] : processes_.commands)
    ready.add(command.process.descriptor(), POLLIN, note_in(answers, id));
  std::vector<pollfd> clients = server_.polled(MonotonicClock::now());
  for (pollfd& client : clients)
    ready.add(client.fd, client.events, [&client](int16_t events) { client.revents = events; });
  ready.wait(limit);
  for (const JobId id : answers) news_.on_answer(id, processes_.commands[id].process.wait());
  for (const JobId id : ends) {
    std::optional<ChildEnd> end;
    if (processes_.launchers[id].is_child) end = processes_.launchers[id].process.wait();
    news_.on_launcher_ended(id, end);
  }
  for (const JobId id : checks) checks_.on_ended(id);
  server_.serve_objects(
      clients,
      [this](launch::ClientId client, const Json& request) {
        const Asker asker{client, server_.user(client)};
        if (const std::optional<Json> answer = requests_.answer(asker, request)) server_.reply(client, *answer);
      },
      MonotonicClock::now());
  return !ends_itself;
}

// Writes down the news among the actions. A start is on the disk before the launcher begins, unless the disk is full: a
// later daemon knows the job's devices though the launcher does not answer yet.
void Daemon::write_down(const std::vector<dispatch::Action>& actions) {
  bool starts_a_job = false;
  for (const dispatch::Action& action : actions) {
    if (const auto* note = std::get_if<dispatch::WriteHistory>(&action)) chronicle_.note(*note, state());
    if (const auto* kept = std::get_if<dispatch::KeepEnd>(&action)) chronicle_.keep(kept->end);
    starts_a_job |= std::holds_alternative<dispatch::StartJob>(action);
  }
  if (starts_a_job) chronicle_.save(state());
}

template <typename Action>
void Daemon::carry_out(const Action& action) {
  if constexpr (std::is_same_v<Action, dispatch::CheckJob>) {
    checks_.carry_out(action);
  } else if constexpr (std::is_same_v<Action, dispatch::Released>) {
    if (action.client != 0) server_.reply(action.client, reply_to(action));
  } else if constexpr (!is_news<Action>) {
    commands_.carry_out(action);
  }
}

// Actions may cause events, and events further actions.
void Daemon::do_actions() {
  for (std::vector<dispatch::Action> actions = dispatcher_.take_actions(); !actions.empty();
       actions = dispatcher_.take_actions()) {
    write_down(actions);
    for (const dispatch::Action& action : actions) {
      std::visit([this](const auto& one) { carry_out(one); }, action);
    }
  }
}

void HostNews::take_up() {
  for (const AgentNews& news : hosts_.agents.unrecorded()) {
    if (!has_devices(news.host)) carry_out(news);
  }
  std::vector<std::string> lost;
  for (const dispatch::Slot& slot : dispatcher_.state().slots) {
    const std::string host = slot.host();
    if (!host.empty() && !hosts_.agents.is_member(host) && std::ranges::find(lost, host) == lost.end())
      lost.push_back(host);
  }
  for (const std::string& host : lost) give_up(host, "its agent was gone when the daemon began");
}

bool HostNews::has_devices(const std::string& host) const {
  return std::ranges::any_of(dispatcher_.state().slots, [&](const auto& slot) { return slot.host() == host; });
}

std::vector<dispatch::WriteHistory> HostNews::tend() {
  for (const AgentNews& news : hosts_.agents.look()) carry_out(news);
  news_.give_up_orphans();
  for (const std::string& host : hosts_.agents.members()) {
    if (hosts_.agents.leaves(host)) release(host);
  }
  return std::exchange(notes_, {});
}

// Agents writes the orders.
void HostNews::carry_out(const AgentNews& news) {
  const auto& [host, action] = news;
  if (const auto* admit_host = std::get_if<AdmitHost>(&action.deed)) return admit(host, *admit_host);
  if (const auto* end = std::get_if<TellTaskEnd>(&action.deed)) return news_.on_task_ended(host, *end);
  if (const auto* look = std::get_if<TellLook>(&action.deed)) return news_.on_task_seen(host, *look);
  if (std::holds_alternative<FreeHost>(action.deed)) return release(host);
  if (std::holds_alternative<GiveUpHost>(action.deed)) return give_up(host, action.reason);
  if (std::holds_alternative<RefuseHost>(action.deed))
    notes_.push_back({0, "refused", 0, fmt::format("the agent of host {}: {}", host, action.reason)});
}

// The host's memory comes before the devices: the dispatcher may give devices to a waiting job at once.
void HostNews::admit(const std::string& host, const AdmitHost& action) {
  try {
    dispatcher_.tell(dispatch::CoresKnown{host, action.cores});
    dispatcher_.tell(dispatch::RackKnown{host, action.rack});
    dispatcher_.tell(dispatch::MemoryKnown{host, action.memory, action.gpus});
    dispatcher_.tell(dispatch::DevicesAdded{action.devices});
    notes_.push_back({0, "joined", std::ssize(action.devices), "host " + host});
  } catch (const Error& error) {
    notes_.push_back({0, "refused", 0, fmt::format("devices of host {}: {}", host, error.message())});
  }
}

// Also withdraws devices lent again before the host has left.
void HostNews::release(const std::string& host) {
  std::vector<std::string> names;
  bool has_others = false;
  for (const dispatch::Slot& slot : dispatcher_.state().slots) {
    if (slot.host() != host) continue;
    has_others |= slot.state == dispatch::Slot::State::leaving;
    if (slot.state == dispatch::Slot::State::present) names.push_back(slot.name);
  }
  if (!names.empty()) {
    dispatcher_.tell(dispatch::Withdrawal{names, std::nullopt, true, 0});
  } else if (!has_others) {
    hosts_.agents.dismiss(host);
  }
}

void HostNews::give_up(const std::string& host, const std::string& reason) {
  const bool has_led = news_.forget_host(host);
  if (has_devices(host) || has_led) dispatcher_.tell(dispatch::HostVanished{host, reason});
  news_.wait_for_heirs(fmt::format("host {} was lost", host));
}

}  // namespace estrain::pool

#include "core/pool/daemon/job_commands.h"

#include <fmt/ranges.h>

#include <csignal>
#include <filesystem>

#include "core/pool/hosts/own_command.h"
#include "core/run/launch/control/control_socket.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::pool {
namespace {

constexpr double kPatienceWithAgents = 60;  // s, until the agents of a run listen

std::string list_of(const std::vector<std::string>& devices) { return fmt::format("{}", fmt::join(devices, ",")); }

}  // namespace

void JobCommands::carry_out(const dispatch::StartJob& action) {
  const JobId id = action.job;
  const std::string run = pool_.directory.run(id);
  // The job also resumes by its spec: a run of another spec is refused. The launcher outlives the daemon's terminal.
  std::vector<std::string> words = {"train", "--own-session", pool_.directory.spec(id)};
  if (run_directory::RunDirectory(run).has_run()) words.emplace_back("--resume");
  words.insert(words.end(), {"--run", run, "--devices", list_of(action.devices)});
  const bool is_spread = !run_agents_for(pool_.state(), id, pool_.directory).hosts.empty();
  if (is_spread || !action.home.empty())
    words.insert(words.end(), {"--name", action.home.empty() ? pool_.name : action.home});
  ask(id, std::move(words), Asked::What::launch);
}

void JobCommands::launch(JobId id, std::vector<std::string> words) {
  const std::string home = pool_.job(id).home;
  if (!home.empty()) {
    Task task{.id = {},
              .job = id,
              .kind = std::string(kLauncher),
              .run = pool_.directory.run(id),
              .words = std::move(words),
              .log = pool_.directory.train_log(id)};
    pool_.launchers[id] = {.is_child = false, .host = home, .task = pool_.agents.start(home, std::move(task))};
    return;
  }
  ChildOptions options = own_command(words, pool_.directory.train_log(id));
  options.dies_with_parent = false;
  try {
    pool_.launchers[id] = {.process = ChildProcess::start(options)};
  } catch (const Error& error) {
    pool_.dispatcher->ended(id, {dispatch::Ended::How::never_began, error.message(), 5}, wall_seconds());
  }
}

// Sends one of this program's commands to the run. The daemon continues until the answer arrives.
void JobCommands::ask(JobId id, std::vector<std::string> words, Asked::What what) {
  pool_.asked[id] = {.what = what, .words = std::move(words), .since = wall_seconds()};
  send(id);
}

// Sends once the agents of the run listen on the job's other hosts; a stop does not wait for agents.
void JobCommands::send(JobId id) {
  Asked& asked = pool_.asked.at(id);
  if (asked.is_sent) return;
  const bool waits =
      asked.what != Asked::What::stop && !pool_.run_agents.listen(run_agents_for(pool_.state(), id, pool_.directory));
  const bool in_vain = waits && wall_seconds() > asked.since + kPatienceWithAgents;
  if (waits && !in_vain) return;
  if (asked.what == Asked::What::launch) {
    const std::vector<std::string> words = std::move(asked.words);
    pool_.asked.erase(id);
    if (!in_vain) return launch(id, words);
    return pool_.dispatcher->ended(id, {dispatch::Ended::How::never_began, "no agent of its run came up", 5},
                                   wall_seconds());
  }
  asked.is_sent = true;
  std::filesystem::remove(pool_.directory.request_log(id));
  asked.words.emplace_back("--json");
  const std::string home = pool_.job(id).home;
  if (!home.empty()) {
    asked.task = pool_.agents.start(home, {.id = {},
                                           .job = id,
                                           .kind = std::string(kRequest),
                                           .run = pool_.directory.run(id),
                                           .words = asked.words,
                                           .log = pool_.directory.request_log(id)});
    return;
  }
  try {
    asked.command = ChildProcess::start(own_command(asked.words, pool_.directory.request_log(id)));
  } catch (const Error& error) {
    fmt::print(stderr, "warning: job {} could not be asked: {}\n", id, error.message());
    const bool stops = asked.what == Asked::What::stop;
    pool_.asked.erase(id);
    if (stops) signal_launcher(id, SIGTERM);
  }
}

void JobCommands::carry_out(const dispatch::GrowJob& action) {
  const std::string run = pool_.directory.run(action.job);
  if (pool_.job(action.job).request.weighs_offers) {
    ask(action.job, {"offer", run, list_of(action.added)}, Asked::What::devices);
  } else {
    ask(action.job, {"resize", run, "--devices", list_of(action.all)}, Asked::What::devices);
  }
}

void JobCommands::carry_out(const dispatch::ChangeBatch& action) {
  ask(action.job,
      {"change", pool_.directory.run(action.job), "--batch", std::to_string(action.batch), "--lr-factor",
       fmt::format("{}", action.lr_factor)},
      Asked::What::batch);
}

void JobCommands::carry_out(const dispatch::ShrinkJob& action) {
  ask(action.job,
      {"reclaim", pool_.directory.run(action.job), list_of(action.given_back), "--within",
       fmt::format("{:.3f}", action.within)},
      Asked::What::devices);
}

// A launcher that does not train yet may not listen yet: a signal stops it at once.
void JobCommands::carry_out(const dispatch::StopJob& action) {
  const JobId id = action.job;
  const auto launcher = pool_.launchers.find(id);
  if (launcher == pool_.launchers.end()) {
    pool_.asked.erase(id);
    return pool_.dispatcher->ended(id, {dispatch::Ended::How::stopped, "it had not begun"}, wall_seconds());
  }
  const bool answers =
      launcher->second.host.empty() ? launch::launcher_answers(pool_.directory.run(id)) : launcher->second.trains;
  if (!answers) return signal_launcher(id, SIGTERM);
  ask(id,
      {"reclaim", pool_.directory.run(id), list_of(action.devices), "--within", fmt::format("{:.3f}", action.within)},
      Asked::What::stop);
}

// No host resumes the job.
void JobCommands::carry_out(const dispatch::KillJob& action) {
  signal_launcher(action.job, SIGKILL);
  for (const Agents::Placed& one : pool_.agents.tasks_of(action.job))
    pool_.agents.signal(one.host, one.task.id, SIGKILL);
  const auto launcher = pool_.launchers.find(action.job);
  if (launcher != pool_.launchers.end()) launcher->second.was_killed = true;
}

void JobCommands::signal_launcher(JobId id, int number) {
  const auto launcher = pool_.launchers.find(id);
  if (launcher == pool_.launchers.end()) return;
  if (launcher->second.host.empty()) return launcher->second.process.signal(number);
  pool_.agents.signal(launcher->second.host, launcher->second.task, number);
}

void JobCommands::send_waiting() {
  std::vector<JobId> waiting;
  for (const auto& [id, asked] : pool_.asked) {
    if (!asked.is_sent) waiting.push_back(id);
  }
  for (const JobId id : waiting) send(id);
}

}  // namespace estrain::pool

#include "core/pool/daemon/job_commands.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "core/base/clock.h"
#include "core/base/json/json_fields.h"
#include "core/base/json/json_text.h"
#include "core/base/process/memory_use.h"
#include "core/planning/dispatch/slots.h"
#include "core/pool/hosts/own_command.h"
#include "core/run/launch/control/control_socket.h"
#include "core/run/launch/control/shared_mark.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::pool {
namespace {

constexpr double kPatienceWithAgents = 60;  // s, until the agents of a run listen

std::string list_of(const std::vector<std::string>& devices) { return fmt::format("{}", fmt::join(devices, ",")); }

RunAgents::WantedAgents without_hosts(const dispatch::Job& job, const PoolDirectory& directory) {
  return {.job = job.id,
          .run = directory.run(job.id),
          .log = directory.agents_log(job.id),
          .hosts = {},
          .leader = {},
          .is_leaderless = job.is_leaderless};
}

// Adds the host of a device of the job, unless the host is the job's home, or the daemon's host.
void add_host_of(const dispatch::Slot& slot, const dispatch::Job& job, RunAgents::WantedAgents& wanted) {
  const std::string host = slot.host();
  if (host.empty() || host == job.home || std::ranges::find(wanted.hosts, host) != wanted.hosts.end()) return;
  wanted.hosts.push_back(host);
}

// The agents for the job's run: on each host where the job has devices, except the home.
RunAgents::WantedAgents run_agents_for(const dispatch::State& state, dispatch::JobId id,
                                       const PoolDirectory& directory) {
  const dispatch::Job& job = state.jobs.at(id);
  RunAgents::WantedAgents wanted = without_hosts(job, directory);
  for (const dispatch::Slot& slot : state.slots) {
    if (slot.holder == id) add_host_of(slot, job, wanted);
  }
  return wanted;
}

// Does the same for all jobs in phases with a launcher.
std::vector<RunAgents::WantedAgents> run_agents_for_all(const dispatch::State& state, const PoolDirectory& directory) {
  std::vector<RunAgents::WantedAgents> all;
  std::map<dispatch::JobId, size_t> places;
  for (const auto& [id, job] : state.jobs) {
    if (!dispatch::is_up(job.phase)) continue;
    places[id] = all.size();
    all.push_back(without_hosts(job, directory));
  }
  for (const dispatch::Slot& slot : state.slots) {
    if (const auto at = places.find(slot.holder); at != places.end())
      add_host_of(slot, state.jobs.at(slot.holder), all[at->second]);
  }
  return all;
}

// Returns the errors that a check has found, without those in these subjects.
std::string errors_in(const Json& answer, const std::set<std::string>& without = {}) {
  std::string errors;
  for (const Json& check : list_in(answer, "checks")) {
    const std::string subject = text_in(check, "check").value_or("");
    if (text_in(check, "outcome").value_or("") != "error" || without.contains(subject)) continue;
    errors += (errors.empty() ? "" : "; ") + subject + ": " + text_in(check, "seen").value_or("");
  }
  return errors;
}

}  // namespace

void JobCommands::carry_out(const dispatch::StartJob& action) {
  const JobId id = action.job;
  const std::string run = hosts_.directory.run(id);
  // The job also resumes by the spec: a run of another spec is refused. The launcher outlives the daemon's terminal.
  std::vector<std::string> words = {"train", "--own-session", hosts_.directory.spec(id)};
  if (run_directory::RunDirectory(run).has_run()) words.emplace_back("--resume");
  words.insert(words.end(), {"--run", run, "--devices", list_of(action.devices)});
  if (job_of(id).request.background) {
    words.emplace_back("--background");
  } else {
    words.insert(words.end(), {"--shared-mark", hosts_.directory.shared_mark(id)});
  }
  const bool is_spread = !run_agents_for(dispatcher_.state(), id, hosts_.directory).hosts.empty();
  if (is_spread || !action.home.empty())
    words.insert(words.end(), {"--name", action.home.empty() ? hosts_.own : action.home});
  ask(id, std::move(words), What::launch);
}

void JobCommands::launch(JobId id, std::vector<std::string> words) {
  const std::string home = job_of(id).home;
  if (!home.empty()) {
    Task task{.id = {},
              .job = id,
              .kind = std::string(kLauncher),
              .run = hosts_.directory.run(id),
              .words = std::move(words),
              .log = hosts_.directory.train_log(id)};
    processes_.launchers[id] = {.is_child = false, .host = home, .task = hosts_.agents.start(home, std::move(task))};
    return;
  }
  ChildOptions options = own_command(words, hosts_.directory.train_log(id));
  options.dies_with_parent = false;
  try {
    processes_.launchers[id] = {.process = ChildProcess::start(options)};
  } catch (const Error& error) {
    dispatcher_.tell(dispatch::JobEnded{id, {dispatch::Ended::How::never_began, error.message(), 5}});
  }
}

// Sends one of this program's commands to the run. The daemon continues until the answer arrives. A stop comes while
// another command is at work, a launch also while a command to the launcher before is.
void JobCommands::ask(JobId id, std::vector<std::string> words, What what) {
  processes_.forget_command(id);
  processes_.commands[id] = {.what = what, .words = std::move(words), .since = seconds(monotonic_ns())};
  send(id);
}

// Sends once the agents of the run listen on the job's other hosts; a stop does not wait for agents.
void JobCommands::send(JobId id) {
  JobCommand& command = processes_.commands.at(id);
  if (command.is_sent) return;
  const bool waits = command.what != What::stop &&
                     !hosts_.run_agents.listen(run_agents_for(dispatcher_.state(), id, hosts_.directory));
  const bool in_vain = waits && seconds(monotonic_ns()) > command.since + kPatienceWithAgents;
  if (waits && !in_vain) return;
  if (command.what == What::launch) {
    const std::vector<std::string> words = std::move(command.words);
    processes_.commands.erase(id);
    if (!in_vain) return launch(id, words);
    return dispatcher_.tell(
        dispatch::JobEnded{id, {dispatch::Ended::How::never_began, "no agent of its run came up", 5}});
  }
  command.is_sent = true;
  std::error_code ignored;
  std::filesystem::remove(hosts_.directory.request_log(id), ignored);
  command.words.emplace_back("--json");
  const std::string home = job_of(id).home;
  if (!home.empty()) {
    command.task = hosts_.agents.start(home, {.id = {},
                                              .job = id,
                                              .kind = std::string(kRequest),
                                              .run = hosts_.directory.run(id),
                                              .words = command.words,
                                              .log = hosts_.directory.request_log(id)});
    return;
  }
  try {
    command.process = ChildProcess::start(own_command(command.words, hosts_.directory.request_log(id)));
  } catch (const Error& error) {
    fmt::print(stderr, "warning: job {} could not be asked: {}\n", id, error.message());
    const bool stops = command.what == What::stop;
    processes_.commands.erase(id);
    if (stops) processes_.signal_launcher(id, SIGTERM, hosts_.agents);
  }
}

void JobCommands::carry_out(const dispatch::GrowJob& action) {
  const std::string run = hosts_.directory.run(action.job);
  if (job_of(action.job).request.weighs_offers && action.given_back.empty()) {
    ask(action.job, {"offer", run, list_of(action.added)}, What::devices);
  } else {
    ask(action.job, {"resize", run, "--devices", list_of(action.all)}, What::devices);
  }
}

void JobCommands::carry_out(const dispatch::ChangeBatch& action) {
  ask(action.job,
      {"change", hosts_.directory.run(action.job), "--batch", std::to_string(action.batch), "--lr-factor",
       fmt::format("{}", action.lr_factor)},
      What::batch);
}

void JobCommands::carry_out(const dispatch::ShrinkJob& action) {
  ask(action.job,
      {"reclaim", hosts_.directory.run(action.job), list_of(action.given_back), "--within",
       fmt::format("{:.3f}", action.within)},
      What::devices);
}

// A launcher may not listen before training: a signal stops the launcher at once.
void JobCommands::carry_out(const dispatch::StopJob& action) {
  const JobId id = action.job;
  const auto launcher = processes_.launchers.find(id);
  if (launcher == processes_.launchers.end()) {
    processes_.forget_command(id);
    return dispatcher_.tell(dispatch::JobEnded{id, {dispatch::Ended::How::stopped, "it had not begun"}});
  }
  const bool answers =
      launcher->second.host.empty() ? launch::launcher_answers(hosts_.directory.run(id)) : launcher->second.trains;
  if (!answers) return processes_.signal_launcher(id, SIGTERM, hosts_.agents);
  ask(id,
      {"reclaim", hosts_.directory.run(id), list_of(action.devices), "--within", fmt::format("{:.3f}", action.within)},
      What::stop);
}

// No host resumes the job.
void JobCommands::carry_out(const dispatch::KillJob& action) {
  processes_.signal_launcher(action.job, SIGKILL, hosts_.agents);
  for (const Agents::Placed& one : hosts_.agents.tasks_of(action.job))
    hosts_.agents.signal(one.host, one.task.id, SIGKILL);
  const auto launcher = processes_.launchers.find(action.job);
  if (launcher != processes_.launchers.end()) launcher->second.was_killed = true;
}

void JobCommands::mark_shared_jobs() {
  std::set<JobId> shared;
  for (const dispatch::Slot& slot : dispatcher_.state().slots)
    if (slot.holder != 0 && slot.guest != 0) shared.insert(slot.holder);
  for (const auto& [id, job] : dispatcher_.state().jobs) {
    if (!dispatch::is_up(job.phase) || job.request.background) continue;
    const auto [known, is_new] = marked_.try_emplace(id, false);
    if (is_new) known->second = std::isinf(launch::shared_until(hosts_.directory.shared_mark(id)));
    if (known->second == shared.contains(id)) continue;
    try {
      launch::mark_shared(hosts_.directory.shared_mark(id), shared.contains(id));
      known->second = shared.contains(id);
    } catch (const Error&) {  // a full disk: tried again
    }
  }
}

void JobCommands::tend() {
  mark_shared_jobs();
  tend_run_agents();
  send_waiting();
  processes_.reap_forgotten();
}

void JobCommands::tend_run_agents() {
  std::vector<RunAgents::WantedAgents> wanted = run_agents_for_all(dispatcher_.state(), hosts_.directory);
  for (RunAgents::WantedAgents& one : wanted) {
    if (const auto launcher = processes_.launchers.find(one.job); launcher != processes_.launchers.end())
      one.leader = launcher->second.task;
  }
  hosts_.run_agents.tend(wanted, seconds(monotonic_ns()));
  for (const Agents::Placed& one : hosts_.agents.tasks()) {  // a launcher without a job to lead
    if (one.task.kind != kLauncher) continue;
    const auto launcher = processes_.launchers.find(one.task.job);
    if (launcher == processes_.launchers.end() || launcher->second.task != one.task.id)
      hosts_.agents.drop(one.host, one.task.id);
  }
}

void JobCommands::send_waiting() {
  std::vector<JobId> waiting;
  for (const auto& [id, command] : processes_.commands) {
    if (!command.is_sent) waiting.push_back(id);
  }
  for (const JobId id : waiting) send(id);
}

void Checks::carry_out(const dispatch::CheckJob& action) {
  if (waiting_.empty()) first_since_ = MonotonicClock::now();
  waiting_.push_back(action.job);
  start();
}

// The memory is estimated by other jobs: a check of a small job is not to wait until a large job ends.
bool Checks::has_waited_long() const {
  return processes_.empty() && MonotonicClock::now() - first_since_ > kPatienceWithMemory;
}

void Checks::start() {
  while (!waiting_.empty()) {
    const int64_t at_work = std::ssize(processes_);
    if (at_work >= dispatch::kChecksAtOnce) return say_that_checks_wait({});
    if (!dispatch::has_memory_for_check(dispatcher_.state(), at_work) && !has_waited_long()) {
      const double left = dispatch::memory_left_for_check(dispatcher_.state(), at_work).value_or(0);
      return say_that_checks_wait({at_work, format_bytes(static_cast<uint64_t>(std::max(0.0, left)))});
    }
    const dispatch::JobId id = waiting_.front();
    waiting_.pop_front();
    first_since_ = MonotonicClock::now();
    said_.erase(id);
    if (job_of(id).phase == dispatch::Phase::checking) start(id);
  }
}

void Checks::start(dispatch::JobId id) {
  std::error_code ignored;
  std::filesystem::remove(directory_.check_log(id), ignored);
  try {
    processes_[id] = ChildProcess::start(own_command(words_for(id), directory_.check_log(id)));
  } catch (const Error& error) {
    return dispatcher_.tell(dispatch::Checked{id, false, error.message()});
  }
  dispatcher_.tell(dispatch::CheckBegan{id});
}

// A job that may come to GPUs of the pool has its need of their memory foretold.
std::vector<std::string> Checks::words_for(dispatch::JobId id) const {
  std::vector<std::string> words = {"check", directory_.spec(id), "--run", directory_.run(id), "--json"};
  const std::string& type = job_of(id).request.type;
  const double most = largest_gpu();
  if (most > 0 && (type.empty() || type == "cuda"))
    words.insert(words.end(), {"--gpu-memory", fmt::format("{:.3f}", most / 1e9)});
  return words;
}

double Checks::largest_gpu() const {
  const dispatch::State& state = dispatcher_.state();
  double most = 0;
  for (const dispatch::Slot& slot : state.slots) {
    const auto at = state.gpu_memory.find(slot.name);
    if (at != state.gpu_memory.end()) most = std::max(most, at->second);
  }
  return most;
}

void Checks::say_that_checks_wait(const Wait& wait) {
  for (const dispatch::JobId id : waiting_)
    if (std::exchange(said_[id], wait) != wait) dispatcher_.tell(dispatch::CheckWaits{id, wait.at_work});
}

void Checks::on_ended(dispatch::JobId id) {
  const ChildEnd end = processes_[id].wait();
  processes_.erase(id);
  const Json answer = answer_in(directory_.check_log(id));
  dispatch::Checked result{id, end.code == 0 && !end.signaled, ""};
  const Json& memory = object_in(answer, "memory_needs");
  result.memory = {number_in(memory, "fixed").value_or(0), number_in(memory, "worker").value_or(0)};
  for (const Json& bytes : list_in(memory, "gpus")) result.gpus.push_back(bytes.is_number() ? bytes.get<double>() : 0);
  if (!result.fine) {
    // Where needs are known, the job waits for memory.
    std::set<std::string> without;
    if (result.memory.are_known()) without.insert("memory");
    if (!result.gpus.empty() && largest_gpu() > 0) without.insert("GPU memory");
    result.reason = errors_in(answer, without);
    const bool lacks_memory_alone = result.reason.empty() && errors_in(answer) != "";
    result.fine = lacks_memory_alone && !end.signaled;
    if (result.reason.empty() && !result.fine) result.reason = end.text() + ", see " + directory_.check_log(id);
  }
  const Json& seconds = object_in(answer, "seconds");
  const bool portable = job_of(id).request.mixes_types;
  result.mini_batch_seconds = number_in(seconds, portable ? "portable" : "torch").value_or(0);
  result.total_steps = whole_in(answer, "total_steps").value_or(0);
  result.gradient_bytes = number_in(object_in(answer, "size"), "gradient_bytes").value_or(0);
  if (answer.contains("work")) {
    Json program = answer.at("work");
    result.work = json_text(program);
    program.erase("data.batch");
    result.program = json_text(program);
  }
  for (const auto& [type, time] : object_in(answer, "mini_batch_seconds").items())
    if (time.is_number()) result.mini_batches[type] = time.get<double>();
  dispatcher_.tell(result);
  start();
}

}  // namespace estrain::pool

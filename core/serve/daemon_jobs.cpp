// The daemon's work for jobs: commands that it starts, and their answers.

#include <fmt/ranges.h>

#include <csignal>
#include <filesystem>

#include "core/base/files/files.h"
#include "core/base/json/json_fields.h"
#include "core/base/json/json_lines.h"
#include "core/dispatch/slots.h"
#include "core/launch/directory/run_directory.h"
#include "core/serve/daemon.h"
#include "core/serve/hosts/job_look.h"
#include "core/serve/hosts/own_command.h"
#include "core/serve/run_end.h"

namespace estrain::serve {
namespace {

constexpr size_t kChecksAtOnce = 2;
constexpr double kPatienceWithAgents = 60;  // s, until those of a run listen
constexpr double kLookEvery = 1;            // s
constexpr double kLookAtStart = 0.2;        // s, while it is not known to train
constexpr double kLookAgain = 5;            // s, behind a launcher that did not answer

std::string list_of(const std::vector<std::string>& devices) { return fmt::format("{}", fmt::join(devices, ",")); }

// The last JSON object that a command with --json printed.
Json answer_in(const std::string& log) {
  Json answer = Json::object();
  for_each_object(log, [&](const Json& object) { answer = object; });
  return answer;
}

// Whether these are the devices that the pool has given to the job.
bool holds(const dispatch::State& state, dispatch::JobId id, std::vector<std::string> held) {
  std::vector<std::string> given = dispatch::names_of(state, id);
  std::ranges::sort(given);
  std::ranges::sort(held);
  return given == held;
}

}  // namespace

// Few at a time: each loads LibTorch and tries a mini-batch.
void Daemon::carry_out(const dispatch::CheckJob& action) {
  to_check_.push_back(action.job);
  start_checks();
}

void Daemon::start_checks() {
  if (to_check_.empty() || checks_.size() >= kChecksAtOnce) return;
  const JobId id = to_check_.front();
  to_check_.pop_front();
  if (dispatcher_->state().jobs.at(id).phase != dispatch::Phase::checking) return start_checks();
  std::filesystem::remove(directory_.check_log(id));
  try {
    checks_[id] = {
        .process = ChildProcess::start(own_command(
            {"check", directory_.spec(id), "--run", directory_.run(id), "--json"}, directory_.check_log(id)))};
  } catch (const Error& error) {
    dispatcher_->checked(id, {false, error.message()}, wall_seconds());
    start_checks();
  }
}

void Daemon::on_check_ended(JobId id) {
  const ChildEnd end = checks_[id].process.wait();
  checks_.erase(id);
  const Json answer = answer_in(directory_.check_log(id));
  dispatch::Dispatcher::Checked result{end.code == 0 && !end.signaled, ""};
  if (!result.fine) {
    for (const Json& check : list_in(answer, "checks")) {
      if (text_in(check, "severity").value_or("") != "error") continue;
      result.reason += (result.reason.empty() ? "" : "; ") + text_in(check, "check").value_or("") + ": " +
                       text_in(check, "message").value_or("");
    }
    if (result.reason.empty()) result.reason = end.text() + ", see " + directory_.check_log(id);
  }
  const Json& seconds = object_in(answer, "seconds");
  const bool portable = dispatcher_->state().jobs.at(id).request.mixes_types;
  result.mini_batch_seconds = number_in(seconds, portable ? "portable" : "torch").value_or(0);
  result.total_steps = whole_in(answer, "total_steps").value_or(0);
  dispatcher_->checked(id, result, wall_seconds());
  start_checks();
}

void Daemon::carry_out(const dispatch::StartJob& action) {
  const JobId id = action.job;
  const std::string run = directory_.run(id);
  std::vector<std::string> words = {"train", "--own-session"};  // it goes on when the daemon's terminal is closed
  if (launch::RunDirectory(run).has_run()) {
    words.emplace_back("--resume");
  } else {
    words.push_back(directory_.spec(id));
  }
  words.insert(words.end(), {"--run", run, "--devices", list_of(action.devices)});
  const bool is_spread = !run_agents_for(dispatcher_->state(), id, directory_).hosts.empty();
  if (is_spread || !action.home.empty())
    words.insert(words.end(), {"--name", action.home.empty() ? name_ : action.home});
  ask(id, std::move(words), Asked::What::launch);
}

void Daemon::launch(JobId id, std::vector<std::string> words) {
  const std::string home = dispatcher_->state().jobs.at(id).home;
  if (!home.empty()) {
    Task task{.id = {},
              .job = id,
              .kind = std::string(kLauncher),
              .run = directory_.run(id),
              .words = std::move(words),
              .log = directory_.train_log(id)};
    launchers_[id] = {.is_child = false, .host = home, .task = agents_.start(home, std::move(task))};
    return;
  }
  ChildOptions options = own_command(words, directory_.train_log(id));
  options.dies_with_parent = false;
  try {
    launchers_[id] = {.process = ChildProcess::start(options)};
  } catch (const Error& error) {
    dispatcher_->ended(id, {dispatch::Ended::How::never_began, error.message(), 5}, wall_seconds());
  }
}

// One of this program's commands to the run, whose answer is waited for without holding up anything.
void Daemon::ask(JobId id, std::vector<std::string> words, Asked::What what) {
  asked_[id] = {.what = what, .words = std::move(words), .since = wall_seconds()};
  send(id);
}

// Once the agents of the run listen on its other hosts; a stop waits for nothing.
void Daemon::send(JobId id) {
  Asked& asked = asked_.at(id);
  if (asked.is_sent) return;
  const bool waits =
      asked.what != Asked::What::stop && !run_agents_.listen(run_agents_for(dispatcher_->state(), id, directory_));
  const bool in_vain = waits && wall_seconds() > asked.since + kPatienceWithAgents;
  if (waits && !in_vain) return;
  if (asked.what == Asked::What::launch) {
    const std::vector<std::string> words = std::move(asked.words);
    asked_.erase(id);
    if (!in_vain) return launch(id, words);
    return dispatcher_->ended(id, {dispatch::Ended::How::never_began, "no agent of its run came up", 5},
                              wall_seconds());
  }
  asked.is_sent = true;
  std::filesystem::remove(directory_.request_log(id));
  asked.words.emplace_back("--json");
  const std::string home = dispatcher_->state().jobs.at(id).home;
  if (!home.empty()) {
    asked.task = agents_.start(home, {.id = {},
                                      .job = id,
                                      .kind = std::string(kRequest),
                                      .run = directory_.run(id),
                                      .words = asked.words,
                                      .log = directory_.request_log(id)});
    return;
  }
  try {
    asked.command = ChildProcess::start(own_command(asked.words, directory_.request_log(id)));
  } catch (const Error& error) {
    fmt::print(stderr, "warning: job {} could not be asked: {}\n", id, error.message());
    const bool stops = asked.what == Asked::What::stop;
    asked_.erase(id);
    if (stops) signal_launcher(id, SIGTERM);
  }
}

void Daemon::carry_out(const dispatch::GrowJob& action) {
  const std::string run = directory_.run(action.job);
  if (dispatcher_->state().jobs.at(action.job).request.weighs_offers) {
    ask(action.job, {"offer", run, list_of(action.added)}, Asked::What::devices);
  } else {
    ask(action.job, {"resize", run, "--devices", list_of(action.all)}, Asked::What::devices);
  }
}

void Daemon::carry_out(const dispatch::ChangeBatch& action) {
  ask(action.job,
      {"change", directory_.run(action.job), "--batch", std::to_string(action.batch), "--lr-factor",
       fmt::format("{}", action.lr_factor)},
      Asked::What::batch);
}

void Daemon::carry_out(const dispatch::ShrinkJob& action) {
  ask(action.job,
      {"reclaim", directory_.run(action.job), list_of(action.given_back), "--within",
       fmt::format("{:.3f}", action.within)},
      Asked::What::devices);
}

// A launcher that has not begun to train stops at once when it is told to by a signal; it may not listen yet.
void Daemon::carry_out(const dispatch::StopJob& action) {
  const JobId id = action.job;
  const auto launcher = launchers_.find(id);
  if (launcher == launchers_.end()) {
    asked_.erase(id);
    return dispatcher_->ended(id, {dispatch::Ended::How::stopped, "it had not begun"}, wall_seconds());
  }
  const bool answers =
      launcher->second.host.empty() ? launch::launcher_answers(directory_.run(id)) : launcher->second.trains;
  if (!answers) return signal_launcher(id, SIGTERM);
  ask(id, {"reclaim", directory_.run(id), list_of(action.devices), "--within", fmt::format("{:.3f}", action.within)},
      Asked::What::stop);
}

// No host goes on with it.
void Daemon::carry_out(const dispatch::KillJob& action) {
  signal_launcher(action.job, SIGKILL);
  for (const Agents::Placed& one : agents_.tasks_of(action.job)) agents_.signal(one.host, one.task.id, SIGKILL);
  const auto launcher = launchers_.find(action.job);
  if (launcher != launchers_.end()) launcher->second.was_killed = true;
}

void Daemon::signal_launcher(JobId id, int number) {
  const auto launcher = launchers_.find(id);
  if (launcher == launchers_.end()) return;
  if (launcher->second.host.empty()) return launcher->second.process.signal(number);
  agents_.signal(launcher->second.host, launcher->second.task, number);
}

void Daemon::carry_out(const dispatch::Released& action) {
  if (action.client == 0) return;
  server_->reply(action.client, {{"ok", true}, {"devices", action.devices}, {"seconds", action.seconds}});
}

// Trusts the devices that the run reports over the command's answer. On another host, its agent has looked since.
void Daemon::on_answer(JobId id, const ChildEnd& end) {
  const Asked asked = std::move(asked_[id]);
  asked_.erase(id);
  const Json answer = answer_in(directory_.request_log(id));
  if (end.code != 0 || end.signaled) {
    fmt::print("job {}: {}\n", id, text_in(answer, "error").value_or(end.text()));
    if (asked.what == Asked::What::stop) return signal_launcher(id, SIGTERM);  // it would not by itself
  }
  if (asked.what == Asked::What::stop) return;  // its end is what counts
  if (asked.what == Asked::What::batch) return on_batch_answer(id, end, answer);
  const double lost = number_in(answer, "stood_still_seconds").value_or(0) +
                      number_in(answer, "lost_while_warming_seconds").value_or(0);
  if (!launchers_.contains(id)) return;
  launchers_[id].lost = lost;
  if (!launchers_[id].host.empty()) return;
  const std::optional<Json> status = look_at_run(directory_.run(id), kLookPatienceMs);
  if (status && status->contains("held")) {
    dispatcher_->changed(id, pool_names(status->at("held"), "", name_), lost, wall_seconds());
  } else {
    launchers_[id].looked = 0;  // the next look tells
  }
}

// The run goes on in a new launch: once that trains, the next look tells (look_at).
void Daemon::on_batch_answer(JobId id, const ChildEnd& end, const Json& answer) {
  if (end.code == 0 && !end.signaled && answer.contains("batch")) return tell_batch(id, answer);
  const bool for_good = text_in(answer, "fault").value_or("") == fault_name(Fault::infeasible);
  dispatcher_->batch_refused(id, for_good, text_in(answer, "error").value_or(end.text()), wall_seconds());
}

void Daemon::tell_batch(JobId id, const Json& answer) {
  const auto batch = whole_in(answer, "batch");
  const auto factor = number_in(answer, "lr_factor");
  const double noise = number_in(object_in(answer, "gradient_noise"), "scale").value_or(0);
  if (batch && factor) dispatcher_->batch_is(id, {*batch, *factor, whole_in(answer, "epoch"), noise});
}

// Where other hosts have the job's state, one of them may go on with it.
void Daemon::on_launcher_ended(JobId id, const std::optional<ChildEnd>& end) {
  const bool was_killed = launchers_[id].was_killed;
  launchers_.erase(id);
  if (const auto asked = asked_.find(id); asked != asked_.end() && !asked->second.is_sent) asked_.erase(asked);
  const dispatch::Ended ended = run_end(directory_.run(id), end, directory_.train_log(id));
  const bool was_asked_to = dispatcher_->state().jobs.at(id).phase == dispatch::Phase::stopping || was_killed;
  const bool is_over = ended.how == dispatch::Ended::How::done || ended.how == dispatch::Ended::How::failed;
  const auto tasks = agents_.tasks_of(id);
  const bool has_heirs = std::ranges::any_of(tasks, [](const auto& one) { return one.task.kind == kRunAgent; });
  if (was_asked_to || is_over || !has_heirs) return dispatcher_->ended(id, ended, wall_seconds());
  orphans_.add(id, ended, wall_seconds());
  dispatcher_->orphaned(id, wall_seconds());
}

void Daemon::look_at_jobs() {
  const double now = wall_seconds();
  std::vector<JobId> due;
  for (auto& [id, launcher] : launchers_) {
    if (!launcher.host.empty()) continue;  // its agent looks
    const auto& job = dispatcher_->state().jobs.at(id);
    const double every = job.phase == dispatch::Phase::starting ? kLookAtStart : kLookEvery;
    if (now < launcher.looked + every && now >= launcher.looked - kLookAgain) continue;
    launcher.looked = now;
    due.push_back(id);
  }
  for (const JobId id : due) {
    if (const std::optional<Json> status = look_at_run(directory_.run(id), kLookPatienceMs)) {
      on_status(id, *status);
    } else if (dispatcher_->state().jobs.at(id).phase != dispatch::Phase::starting) {
      launchers_[id].looked += kLookAgain;
    }
  }
}

void Daemon::on_status(JobId id, const Json& status) {
  Helper& launcher = launchers_.at(id);
  const dispatch::Phase phase = dispatcher_->state().jobs.at(id).phase;
  const double now = wall_seconds();
  if (!status.contains("step") || !status.contains("held")) return;
  const bool trains = text_in(status, "state").value_or("") == "training";
  launcher.trains |= trains;
  tell_batch(id, status);
  const std::vector<std::string> held = pool_names(status.at("held"), launcher.host, name_);
  if (!launcher.is_found && !asked_.contains(id)) {
    launcher.is_found = true;
    return dispatcher_->found(id, held, now);
  }
  // Another batch takes a new launch, which has begun when it trains.
  const bool waits_for_launch = dispatcher_->state().jobs.at(id).batch.wanted != 0 && !trains;
  if (phase == dispatch::Phase::changing && !asked_.contains(id) && !waits_for_launch) {
    // The answer to a request got lost, with a daemon or on its way; or the request was for another batch.
    dispatcher_->changed(id, held, std::exchange(launcher.lost, 0), now);
  } else if (phase == dispatch::Phase::running && trains && !asked_.contains(id) &&
             !holds(dispatcher_->state(), id, held)) {
    dispatcher_->changed(id, held, 0, now);  // it has lost some
  }
  if (!trains) return;
  if (phase == dispatch::Phase::starting) dispatcher_->trains(id, now);
  dispatcher_->progressed(
      id,
      {whole_in(status, "step").value_or(0), whole_in(status, "total_steps").value_or(0),
       number_in(status, "step_seconds").value_or(0), whole_in(status, "devices_at_work").value_or(0)},
      now);
}

}  // namespace estrain::serve

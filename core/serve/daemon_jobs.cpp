// The daemon's work for jobs: commands that it starts, and their answers.

#include <fmt/ranges.h>

#include <csignal>
#include <filesystem>

#include "core/base/files/files.h"
#include "core/base/json/json_fields.h"
#include "core/base/json/json_lines.h"
#include "core/launch/directory/run_directory.h"
#include "core/serve/daemon.h"
#include "core/serve/run_end.h"

namespace estrain::serve {
namespace {

constexpr size_t kChecksAtOnce = 2;
constexpr int kPatienceMs = 200;      // with a launcher that is asked how far it is
constexpr double kLookEvery = 1;      // s
constexpr double kLookAtStart = 0.2;  // s, while it is not known to train
constexpr double kLookAgain = 5;      // s, behind a launcher that did not answer

std::string list_of(const std::vector<std::string>& devices) { return fmt::format("{}", fmt::join(devices, ",")); }

// The last JSON object that a command with --json printed.
Json answer_in(const std::string& log) {
  Json answer = Json::object();
  for_each_object(log, [&](const Json& object) { answer = object; });
  return answer;
}

}  // namespace

std::optional<Json> status_of(const std::string& run, int milliseconds) {
  try {
    return launch::ask_launcher(run, conduct::StatusRequest{}, milliseconds);
  } catch (const Error&) {
    return std::nullopt;
  }
}

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
  ChildOptions options;
  options.same_program = true;
  options.arguments = {"estrain", "check", directory_.spec(id), "--run", directory_.run(id), "--json"};
  options.output = directory_.check_log(id);
  try {
    checks_[id] = {ChildProcess::start(options), true};
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
  ChildOptions options;
  options.same_program = true;
  options.arguments = {"estrain", "train", "--own-session"};  // it goes on when the daemon's terminal is closed
  if (launch::RunDirectory(run).has_run()) {
    options.arguments.emplace_back("--resume");
  } else {
    options.arguments.push_back(directory_.spec(id));
  }
  for (const char* word : {"--run", run.c_str(), "--devices"}) options.arguments.emplace_back(word);
  options.arguments.push_back(list_of(action.devices));
  options.output = directory_.train_log(id);
  options.dies_with_parent = false;
  try {
    launchers_[id] = {ChildProcess::start(options), true};
  } catch (const Error& error) {
    dispatcher_->ended(id, {dispatch::Ended::How::never_began, error.message(), 5}, wall_seconds());
  }
}

// One of this program's commands to the run, whose answer is waited for without holding up anything.
void Daemon::ask(JobId id, std::vector<std::string> words, Asked::What what) {
  std::filesystem::remove(directory_.request_log(id));
  ChildOptions options;
  options.same_program = true;
  options.arguments = {"estrain"};
  for (std::string& word : words) options.arguments.push_back(std::move(word));
  options.arguments.emplace_back("--json");
  options.output = directory_.request_log(id);
  try {
    asked_[id] = {ChildProcess::start(options), what};
  } catch (const Error& error) {
    fmt::print(stderr, "warning: job {} could not be asked: {}\n", id, error.message());
    if (what == Asked::What::stop) signal_launcher(id, SIGTERM);
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
  if (!launch::launcher_answers(directory_.run(action.job))) return signal_launcher(action.job, SIGTERM);
  ask(action.job,
      {"reclaim", directory_.run(action.job), list_of(action.devices), "--within",
       fmt::format("{:.3f}", action.within)},
      Asked::What::stop);
}

void Daemon::carry_out(const dispatch::KillJob& action) { signal_launcher(action.job, SIGKILL); }

void Daemon::signal_launcher(JobId id, int number) {
  const auto launcher = launchers_.find(id);
  if (launcher != launchers_.end()) launcher->second.process.signal(number);
}

void Daemon::carry_out(const dispatch::Released& action) {
  if (action.client == 0) return;
  server_->reply(action.client, {{"ok", true}, {"devices", action.devices}, {"seconds", action.seconds}});
}

// Trusts the devices that the run reports over the command's answer.
void Daemon::on_answer(JobId id) {
  const Asked asked = std::move(asked_[id]);
  asked_.erase(id);
  const ChildEnd end = const_cast<ChildProcess&>(asked.command).wait();
  const Json answer = answer_in(directory_.request_log(id));
  if (end.code != 0 || end.signaled) {
    fmt::print("job {}: {}\n", id, text_in(answer, "error").value_or(end.text()));
    if (asked.what == Asked::What::stop) return signal_launcher(id, SIGTERM);  // it would not by itself
  }
  if (asked.what == Asked::What::stop) return;  // its end is what counts
  if (asked.what == Asked::What::batch) return on_batch_answer(id, end, answer);
  const double lost = number_in(answer, "stood_still_seconds").value_or(0) +
                      number_in(answer, "lost_while_warming_seconds").value_or(0);
  const std::optional<Json> status = status_of(directory_.run(id), kPatienceMs);
  if (status && status->contains("held")) {
    dispatcher_->changed(id, status->at("held").get<std::vector<std::string>>(), lost, wall_seconds());
  } else if (launchers_.contains(id)) {
    looked_[id] = 0;  // the next look tells
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

void Daemon::on_launcher_ended(JobId id) {
  const Helper launcher = std::move(launchers_[id]);
  launchers_.erase(id);
  looked_.erase(id);
  std::optional<ChildEnd> end;
  if (launcher.is_child) end = const_cast<ChildProcess&>(launcher.process).wait();
  dispatcher_->ended(id, run_end(directory_.run(id), end, directory_.train_log(id)), wall_seconds());
}

void Daemon::look_at_jobs() {
  const double now = wall_seconds();
  for (const auto& [id, launcher] : launchers_) {
    const auto& job = dispatcher_->state().jobs.at(id);
    const double every = job.phase == dispatch::Phase::starting ? kLookAtStart : kLookEvery;
    double& looked = looked_[id];
    if (now < looked + every && now >= looked - kLookAgain) continue;
    looked = now;
    look_at(id);
  }
}

void Daemon::look_at(JobId id) {
  const std::optional<Json> status = status_of(directory_.run(id), kPatienceMs);
  const dispatch::Phase phase = dispatcher_->state().jobs.at(id).phase;
  if (!status) {
    if (phase != dispatch::Phase::starting) looked_[id] += kLookAgain;
    return;
  }
  const double now = wall_seconds();
  if (!status->contains("step") || !status->contains("held")) return;
  const bool trains = text_in(*status, "state").value_or("") == "training";
  tell_batch(id, *status);
  // Another batch takes a new launch, which has begun when it trains.
  const bool waits_for_launch = dispatcher_->state().jobs.at(id).batch.wanted != 0 && !trains;
  if (phase == dispatch::Phase::changing && !asked_.contains(id) && !waits_for_launch) {
    // The answer to a request got lost, with a daemon or on its way; or the request was for another batch.
    dispatcher_->changed(id, status->at("held").get<std::vector<std::string>>(), 0, now);
  }
  if (!trains) return;
  if (phase == dispatch::Phase::starting) dispatcher_->trains(id, now);
  dispatcher_->progressed(id,
                          {whole_in(*status, "step").value_or(0), whole_in(*status, "total_steps").value_or(0),
                           number_in(object_in(*status, "plan"), "measured_step_seconds").value_or(0),
                           static_cast<int64_t>(list_in(*status, "workers").size())},
                          now);
}

}  // namespace estrain::serve

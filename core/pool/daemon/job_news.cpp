#include "core/pool/daemon/job_news.h"

#include <fcntl.h>

#include <algorithm>
#include <csignal>

#include "core/base/files/file_lock.h"
#include "core/base/json/json_fields.h"
#include "core/base/visible_text.h"
#include "core/planning/dispatch/slots.h"
#include "core/pool/change_cost.h"
#include "core/pool/hosts/own_command.h"
#include "core/pool/run_end.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::pool {
namespace {

constexpr int kPatienceAtFirstMs = 5000;  // with a launcher of an earlier daemon
constexpr double kLookEvery = 1;          // s
constexpr double kLookAtStart = 0.2;      // s, while the job is not known to train
constexpr double kLookAgain = 5;          // s, after a launcher did not answer

bool is_locked(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  return file && !take_lock(file.get(), path);
}

// A launcher's state in a pool's words.
dispatch::Dispatcher::Found::Doing doing_of(const std::string& state) {
  using Doing = dispatch::Dispatcher::Found::Doing;
  if (state == "training") return Doing::trains;
  if (state == "starting") return Doing::starts;
  return state == "ending" ? Doing::ends : Doing::changes;
}

// Returns true if `held` are the devices that the pool has given to the job.
bool holds(const dispatch::State& state, dispatch::JobId id, std::vector<std::string> held) {
  std::vector<std::string> given = dispatch::names_of(state, id);
  std::ranges::sort(given);
  std::ranges::sort(held);
  return given == held;
}

}  // namespace

// A process id proves nothing: after a restart of the host, another process may have it. The run's lock is proof.
void JobNews::take_up(JobId id, double asked) {
  if (!pool_.agents.tasks_of(id).empty() || !pool_.job(id).home.empty()) take_up_elsewhere(id);
  if (pool_.launchers.contains(id) || pool_.orphans.contain(id)) return;
  const std::string run = pool_.directory.run(id);
  const std::optional<run_directory::RunOwner> owner = run_directory::RunDirectory(run).owner();
  if (!is_locked(run_directory::RunDirectory(run).lock_file()) || !owner || !owner->is_here() || owner->has_ended()) {
    const bool began = run_directory::RunDirectory(run).has_run();
    const dispatch::Ended never{dispatch::Ended::How::stopped, "it had not begun"};
    return pool_.dispatcher->ended(id, began ? run_end(run, std::nullopt, pool_.directory.train_log(id)) : never,
                                   wall_seconds());
  }
  pool_.launchers[id] = {.process = ChildProcess::adopt(owner->pid), .is_child = false};
  const std::optional<JobLook> look = look_at_run(run, kPatienceAtFirstMs);
  if (!look || !look->held) return;
  tell_batch(id, look->batch);
  // While another batch takes a new launch, the launcher takes no requests: a later look tells.
  if (pool_.job(id).batch.wanted == 0 || look->trains())
    tell_found(id, *look, pool_names(*look->held, "", pool_.name), change_cost(run, asked));
}

void JobNews::tell_found(JobId id, const JobLook& look, const std::vector<std::string>& held, double lost) {
  const int64_t step = look.step.value_or(0);
  pool_.dispatcher->found(id, {held, doing_of(look.state), step, lost, look.step_seconds}, wall_seconds());
}

// The launcher of the job is on another host, or other hosts have the job's state.
void JobNews::take_up_elsewhere(JobId id) {
  const dispatch::Job& job = pool_.job(id);
  const bool is_stopped = job.phase == dispatch::Phase::stopping;
  bool has_heirs = false;
  for (const Agents::Placed& one : pool_.agents.tasks_of(id)) {
    has_heirs |= one.task.kind == kRunAgent;
    if (one.task.kind == kLauncher && one.host == job.home)
      pool_.launchers[id] = {.is_child = false, .host = one.host, .task = one.task.id, .is_found = false};
    if (one.task.kind != kRequest) continue;
    const auto what = is_stopped              ? Asked::What::stop
                      : job.batch.wanted != 0 ? Asked::What::batch
                                              : Asked::What::devices;
    pool_.asked[id] = {.what = what, .words = {}, .is_sent = true, .task = one.task.id};
  }
  if (pool_.launchers.contains(id) || job.home.empty() || !has_heirs) return;
  pool_.orphans.add(id, {dispatch::Ended::How::vanished, "its launcher is gone without a word"}, wall_seconds());
  pool_.dispatcher->orphaned(id, wall_seconds());
}

// Trusts the devices in the run's status over the command's answer. On another host, the agent has looked since.
void JobNews::on_answer(JobId id, const ChildEnd& end) {
  const Asked asked = std::move(pool_.asked[id]);
  pool_.asked.erase(id);
  const Json answer = answer_in(pool_.directory.request_log(id));
  if (end.code != 0 || end.signaled) {
    fmt::print("job {}: {}\n", id, visible_in_line(text_in(answer, "error").value_or(end.text())));
    if (asked.what == Asked::What::stop) return commands_.signal_launcher(id, SIGTERM);  // else it would continue
  }
  if (asked.what == Asked::What::stop) return;  // the launcher's end is the answer
  if (asked.what == Asked::What::batch) return on_batch_answer(id, end, answer);
  const double lost = cost_in(answer);
  if (!pool_.launchers.contains(id)) return;
  pool_.launchers[id].lost = lost;
  if (!pool_.launchers[id].host.empty()) return;
  const std::optional<JobLook> look = look_at_run(pool_.directory.run(id), kLookPatienceMs);
  if (look && look->held) {
    const std::vector<std::string> held = pool_names(*look->held, "", pool_.name);
    pool_.dispatcher->changed(id, {held, lost, look->step.value_or(0)}, wall_seconds());
    tell_progress(id, *look);
  } else {
    pool_.launchers[id].looked = 0;  // the next look tells
  }
}

// The run resumes in a new launch: once the new launch trains, the next look tells (on_look).
void JobNews::on_batch_answer(JobId id, const ChildEnd& end, const Json& answer) {
  const auto batch = whole_in(answer, "batch");
  const auto lr_factor = number_in(answer, "lr_factor");
  if (end.code == 0 && !end.signaled && answer.contains("batch")) {
    if (batch && lr_factor) tell_batch(id, BatchLook{*batch, *lr_factor, whole_in(answer, "epoch")});
    return;
  }
  const bool for_good = text_in(answer, "fault").value_or("") == fault_name(Fault::infeasible);
  pool_.dispatcher->batch_refused(id, for_good, text_in(answer, "error").value_or(end.text()), wall_seconds());
}

void JobNews::tell_batch(JobId id, const std::optional<BatchLook>& batch) {
  if (batch) pool_.dispatcher->batch_is(id, {batch->batch, batch->lr_factor, batch->epoch, batch->noise_scale});
}

// If other hosts have the job's state, another host may resume the job.
void JobNews::on_launcher_ended(JobId id, const std::optional<ChildEnd>& end) {
  const bool was_killed = pool_.launchers[id].was_killed;
  pool_.launchers.erase(id);
  if (const auto asked = pool_.asked.find(id); asked != pool_.asked.end() && !asked->second.is_sent)
    pool_.asked.erase(asked);
  dispatch::Ended ended = run_end(pool_.directory.run(id), end, pool_.directory.train_log(id));
  const bool stops = pool_.job(id).phase == dispatch::Phase::stopping;
  if (stops && end && end->signaled && end->code == SIGTERM)  // the launcher did not yet handle the signal
    ended = {dispatch::Ended::How::stopped, "it was stopped as it started"};
  const bool was_asked_to = stops || was_killed;
  const bool is_over = ended.how == dispatch::Ended::How::done || ended.how == dispatch::Ended::How::failed;
  const auto tasks = pool_.agents.tasks_of(id);
  const bool has_heirs = std::ranges::any_of(tasks, [](const auto& one) { return one.task.kind == kRunAgent; });
  if (was_asked_to || is_over || !has_heirs) return pool_.dispatcher->ended(id, ended, wall_seconds());
  pool_.orphans.add(id, ended, wall_seconds());
  pool_.dispatcher->orphaned(id, wall_seconds());
}

void JobNews::look_at_jobs() {
  const double now = wall_seconds();
  const bool before_decision = pool_.dispatcher->round_is_over(now);  // the decision of this turn
  std::vector<JobId> due;
  for (auto& [id, launcher] : pool_.launchers) {
    if (!launcher.host.empty()) continue;  // the host's agent looks
    const auto& job = pool_.job(id);
    const double usual = before_decision ? 0 : kLookEvery;
    const double every = job.phase == dispatch::Phase::starting ? kLookAtStart : usual;
    if (now < launcher.looked + every && now >= launcher.looked - kLookAgain) continue;
    launcher.looked = now;
    due.push_back(id);
  }
  for (const JobId id : due) {
    if (const std::optional<JobLook> look = look_at_run(pool_.directory.run(id), kLookPatienceMs)) {
      on_look(id, *look);
    } else if (pool_.job(id).phase != dispatch::Phase::starting) {
      pool_.launchers[id].looked += kLookAgain;
    }
  }
}

void JobNews::on_look(JobId id, const JobLook& look) {
  Launcher& launcher = pool_.launchers.at(id);
  const dispatch::Phase phase = pool_.job(id).phase;
  const double now = wall_seconds();
  if (!look.step || !look.held) return;
  const bool trains = look.trains();
  launcher.trains |= trains;
  tell_batch(id, look.batch);
  const std::vector<std::string> held = pool_names(*look.held, launcher.host, pool_.name);
  if (!launcher.is_found && !pool_.asked.contains(id)) {
    launcher.is_found = true;
    return tell_found(id, look, held, 0);
  }
  if (phase == dispatch::Phase::changing && trains && !pool_.asked.contains(id)) {
    // The answer to a request got lost, with a daemon or on the way; or the request was for another batch, which takes
    // a new launch. The change is under way until the new launch trains.
    pool_.dispatcher->changed(id, {held, std::exchange(launcher.lost, 0), *look.step}, now);
  } else if (phase == dispatch::Phase::running && trains && !pool_.asked.contains(id) &&
             !holds(pool_.state(), id, held)) {
    pool_.dispatcher->changed(id, {held, 0, *look.step}, now);  // the job has lost devices
  }
  if (trains && phase == dispatch::Phase::starting) pool_.dispatcher->trains(id, now);
  tell_progress(id, look);
}

// Tells the progress of a job that trains.
void JobNews::tell_progress(JobId id, const JobLook& look) {
  if (!look.step || !look.trains()) return;
  const int64_t held = look.held ? std::ssize(*look.held) : 0;
  pool_.dispatcher->progressed(id, {*look.step, look.total_steps, look.step_seconds, held, look.devices_at_work},
                               wall_seconds());
}

}  // namespace estrain::pool

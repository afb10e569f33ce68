#include "core/pool/daemon/job_news.h"

#include <fcntl.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <limits>
#include <sstream>
#include <string_view>

#include "core/base/clock.h"
#include "core/base/files/file_lock.h"
#include "core/base/files/files.h"
#include "core/base/files/long_files.h"
#include "core/base/json/json_fields.h"
#include "core/base/visible_text.h"
#include "core/job/placement/device.h"
#include "core/planning/dispatch/slots.h"
#include "core/pool/hosts/own_command.h"
#include "core/pool/run_past.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::pool {
namespace {

constexpr Nanoseconds kPatienceAtFirst = 5s;  // with a launcher of an earlier daemon
constexpr double kLookEvery = 1;              // s
constexpr double kLookAtStart = 0.2;          // s, while the job is not known to train
constexpr double kLookAgain = 5;              // s, after a launcher did not answer

bool is_locked(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  return file && !take_lock(file.get(), path);
}

// Returns the launcher at work on this host; nothing if there is none. A process id proves nothing: after a restart of
// the host, another process may have it. The run's lock is proof.
std::optional<ChildProcess> launcher_of(const std::string& run) {
  const run_directory::RunDirectory directory(run);
  const std::optional<run_directory::RunOwner> owner = directory.owner();
  if (!owner || !owner->is_here() || !is_locked(directory.lock_file())) return std::nullopt;
  return ChildProcess::find(owner->pid);
}

// A launcher's state in a pool's words.
dispatch::FoundAtWork::Doing doing_of(const std::string& state) {
  using Doing = dispatch::FoundAtWork::Doing;
  if (state == "training") return Doing::trains;
  if (state == "starting") return Doing::starts;
  return state == "ending" ? Doing::ends : Doing::changes;
}

// Returns true if the pool has given the devices `held` to the job.
bool holds(const dispatch::State& state, dispatch::JobId id, std::vector<std::string> held) {
  std::vector<std::string> given = dispatch::names_of(state, id);
  std::ranges::sort(given);
  std::ranges::sort(held);
  return given == held;
}

// Returns the pool's names of devices, from the names told by a launcher on host `home`. `own`: the daemon's host.
std::vector<std::string> pool_names(const std::vector<std::string>& held, const std::string& home,
                                    const std::string& own) {
  std::vector<std::string> names;
  for (const std::string& text : held) {
    std::optional<placement::Device> device = placement::parse_device(text);
    if (!device) continue;
    if (device->host.empty()) device->host = home;
    if (device->host == own) device->host.clear();
    names.push_back(device->text());
  }
  return names;
}

// The words of a process, without the program's name.
std::vector<std::string> words_of(pid_t pid) {
  std::istringstream line(text_if_readable(fmt::format("/proc/{}/cmdline", pid)));
  std::vector<std::string> words;
  for (std::string word; std::getline(line, word, '\0');) words.push_back(word);
  if (!words.empty()) words.erase(words.begin());
  return words;
}

// Returns the devices in the command of a launcher.
std::vector<std::string> devices_in(const std::vector<std::string>& words) {
  const auto option = std::ranges::find(words, "--devices");
  if (option == words.end() || option + 1 == words.end()) return {};
  std::istringstream list(option[1]);
  std::vector<std::string> devices;
  for (std::string device; std::getline(list, device, ',');) devices.push_back(device);
  return devices;
}

// Returns the evaluation in a line of metrics.jsonl. A value that is not finite is null there, and never better.
std::optional<dispatch::Evaluation> evaluation_in(std::string_view line, const dispatch::EarlyStop& rule) {
  if (line.find("\"eval\"") == line.npos) return std::nullopt;
  const Json entry = parse_json_if_sound(line);
  const auto step = whole_in(entry, "step");
  if (!step || !entry.contains("eval")) return std::nullopt;
  const Json& eval = object_in(entry, "eval");
  const bool is_further = rule.metric != "loss" && rule.metric != "accuracy";
  constexpr double kWorst = std::numeric_limits<double>::max();
  return dispatch::Evaluation{.step = *step,
                              .loss = number_in(eval, "loss").value_or(kWorst),
                              .accuracy = number_in(eval, "accuracy").value_or(0),
                              .metric = number_in(is_further ? object_in(eval, "metrics") : eval, rule.metric)
                                            .value_or(rule.falls ? kWorst : -kWorst)};
}

}  // namespace

void JobNews::take_up(JobId id, double asked) {
  if (!hosts_.agents.tasks_of(id).empty() || !job_of(id).home.empty()) take_up_elsewhere(id);
  if (processes_.launchers.contains(id) || processes_.orphans.contain(id)) return;
  const std::string run = hosts_.directory.run(id);
  std::optional<ChildProcess> launcher = launcher_of(run);
  if (!launcher) {
    const bool began = run_directory::RunDirectory(run).has_run();
    tell_last_evaluations(id);
    const dispatch::Ended never{dispatch::Ended::How::stopped, "it had not begun"};
    return dispatcher_.tell(dispatch::JobEnded{id, began ? end_of(id, std::nullopt) : never});
  }
  processes_.launchers[id] = {.process = std::move(*launcher), .is_child = false};
  const std::optional<JobLook> look = look_at_run(run, kPatienceAtFirst);
  if (!look || !look->held) return;
  tell_batch(id, look->batch);
  // Where another batch takes a new launch, the launcher takes no requests meanwhile: a later look tells.
  if (job_of(id).batch.wanted == 0 || look->trains())
    tell_found(id, *look, pool_names(*look->held, "", hosts_.own), change_cost(run, asked));
}

// A launcher that does not answer yet has the devices of its command line.
void JobNews::take_up_unsaved(JobId id) {
  JobLauncher found{.is_child = false};
  std::vector<std::string> devices;
  for (const Agents::Placed& one : hosts_.agents.tasks_of(id)) {
    if (one.task.kind != kLauncher) continue;
    found.host = one.host, found.task = one.task.id;
    devices = devices_in(one.task.words);
  }
  JobLook look;
  look.state = "starting";
  if (found.task.empty()) {
    const std::string run = hosts_.directory.run(id);
    std::optional<ChildProcess> launcher = launcher_of(run);
    if (!launcher) return;
    found.process = std::move(*launcher);
    devices = devices_in(words_of(found.process.pid()));
    if (const auto seen = look_at_run(run, kPatienceAtFirst); seen && seen->held) look = *seen;
  }
  found.is_found = look.held.has_value();
  const std::string home = found.host;
  processes_.launchers[id] = std::move(found);
  tell_batch(id, look.batch);
  tell_found(id, look, pool_names(look.held.value_or(devices), home, hosts_.own), 0);
}

dispatch::Ended JobNews::end_of(JobId id, const std::optional<ChildEnd>& end) const {
  return run_end(hosts_.directory.run(id), end, hosts_.directory.train_log(id), job_of(id).request.inputs);
}

void JobNews::tell_found(JobId id, const JobLook& look, const std::vector<std::string>& held, double lost) {
  const int64_t step = look.step.value_or(0);
  const std::string& home = processes_.launchers.at(id).host;
  dispatcher_.tell(dispatch::FoundAtWork{id, held, doing_of(look.state), step, lost, look.step_seconds, home});
}

// The launcher of the job is on another host, or other hosts have the job's state.
void JobNews::take_up_elsewhere(JobId id) {
  const dispatch::Job& job = job_of(id);
  const bool is_stopped = job.phase == dispatch::Phase::stopping;
  bool has_heirs = false;
  for (const Agents::Placed& one : hosts_.agents.tasks_of(id)) {
    has_heirs |= one.task.kind == kRunAgent;
    if (one.task.kind == kLauncher && one.host == job.home)
      processes_.launchers[id] = {.is_child = false, .host = one.host, .task = one.task.id, .is_found = false};
    if (one.task.kind != kRequest) continue;
    const auto what = is_stopped ? What::stop : job.batch.wanted != 0 ? What::batch : What::devices;
    processes_.commands[id] = {.what = what, .words = {}, .is_sent = true, .task = one.task.id};
  }
  if (processes_.launchers.contains(id) || job.home.empty() || !has_heirs) return;
  processes_.orphans.add(id, {dispatch::Ended::How::vanished, "its launcher is gone without a word"},
                         seconds(monotonic_ns()));
  dispatcher_.tell(dispatch::Orphaned{id});
}

// Trusts the devices in the run's status over the command's answer. On another host, the agent has looked since.
void JobNews::on_answer(JobId id, const ChildEnd& end) {
  const JobCommand asked = std::move(processes_.commands[id]);
  processes_.commands.erase(id);
  const Json answer = answer_in(hosts_.directory.request_log(id));
  if (end.code != 0 || end.signaled) {
    fmt::print("job {}: {}\n", id, visible_in_line(text_in(answer, "error").value_or(end.text())));
    if (asked.what == What::stop)
      return processes_.signal_launcher(id, SIGTERM, hosts_.agents);  // else the launcher would continue
  }
  if (asked.what == What::stop) return;  // the launcher's end is the answer
  if (asked.what == What::batch) return on_batch_answer(id, end, answer);
  const double lost = cost_in(answer);
  if (!processes_.launchers.contains(id)) return;
  processes_.launchers[id].lost = lost;
  if (!processes_.launchers[id].host.empty()) return;
  const std::optional<JobLook> look = look_at_run(hosts_.directory.run(id), kLookPatience);
  if (look && look->held) {
    const std::vector<std::string> held = pool_names(*look->held, "", hosts_.own);
    dispatcher_.tell(dispatch::DevicesChanged{id, held, lost, look->step.value_or(0)});
    tell_progress(id, *look);
  } else {
    processes_.launchers[id].looked = 0;  // the next look tells
  }
}

// The run may resume in a new launch: once the run trains, the next look tells (on_look).
void JobNews::on_batch_answer(JobId id, const ChildEnd& end, const Json& answer) {
  const auto batch = whole_in(answer, "batch");
  const auto lr_factor = number_in(answer, "lr_factor");
  if (end.code == 0 && !end.signaled && answer.contains("batch")) {
    if (batch && lr_factor) tell_batch(id, BatchLook{*batch, *lr_factor, whole_in(answer, "epoch")});
    return;
  }
  const bool for_good = text_in(answer, "fault").value_or("") == fault_name(Fault::infeasible);
  dispatcher_.tell(dispatch::BatchRefused{id, for_good, text_in(answer, "error").value_or(end.text())});
}

void JobNews::tell_batch(JobId id, const std::optional<BatchLook>& batch) {
  if (batch)
    dispatcher_.tell(dispatch::BatchInForce{id, batch->batch, batch->lr_factor, batch->epoch, batch->noise_scale});
}

// If other hosts have the job's state, another host may resume the job.
void JobNews::on_launcher_ended(JobId id, const std::optional<ChildEnd>& end) {
  const bool was_killed = processes_.launchers[id].was_killed;
  processes_.launchers.erase(id);
  if (const auto asked = processes_.commands.find(id); asked != processes_.commands.end() && !asked->second.is_sent)
    processes_.commands.erase(asked);
  tell_last_evaluations(id);
  dispatch::Ended ended = end_of(id, end);
  const bool stops = job_of(id).phase == dispatch::Phase::stopping;
  if (stops && end && end->signaled && end->code == SIGTERM)  // the launcher did not yet handle the signal
    ended = {dispatch::Ended::How::stopped, "it was stopped as it started"};
  const bool was_asked_to = stops || was_killed;
  const bool is_over = ended.how == dispatch::Ended::How::done || ended.how == dispatch::Ended::How::failed;
  const auto tasks = hosts_.agents.tasks_of(id);
  const bool has_heirs = std::ranges::any_of(tasks, [](const auto& one) { return one.task.kind == kRunAgent; });
  if (was_asked_to || is_over || !has_heirs) return dispatcher_.tell(dispatch::JobEnded{id, ended});
  processes_.orphans.add(id, ended, seconds(monotonic_ns()));
  dispatcher_.tell(dispatch::Orphaned{id});
}

void JobNews::look_at_jobs() {
  const double now = seconds(monotonic_ns());
  const bool before_decision = dispatcher_.round_is_over(wall_seconds());  // the decision of this turn
  std::vector<JobId> due;
  for (auto& [id, launcher] : processes_.launchers) {
    if (!launcher.host.empty()) continue;  // the host's agent looks
    const auto& job = job_of(id);
    const double usual = before_decision ? 0 : kLookEvery;
    const double every = job.phase == dispatch::Phase::starting ? kLookAtStart : usual;
    if (now < launcher.looked + every) continue;
    launcher.looked = now;
    due.push_back(id);
  }
  for (const JobId id : due) {
    if (const std::optional<JobLook> look = look_at_run(hosts_.directory.run(id), kLookPatience)) {
      on_look(id, *look);
    } else if (job_of(id).phase != dispatch::Phase::starting) {
      processes_.launchers[id].looked += kLookAgain;
    }
  }
}

void JobNews::on_look(JobId id, const JobLook& look) {
  JobLauncher& launcher = processes_.launchers.at(id);
  const dispatch::Phase phase = job_of(id).phase;
  const double now = wall_seconds();
  if (!look.step || !look.held) return;
  const bool trains = look.trains();
  launcher.trains |= trains;
  tell_batch(id, look.batch);
  const std::vector<std::string> held = pool_names(*look.held, launcher.host, hosts_.own);
  if (!launcher.is_found && !processes_.commands.contains(id)) {
    launcher.is_found = true;
    return tell_found(id, look, held, 0);
  }
  if (phase == dispatch::Phase::changing && trains && !processes_.commands.contains(id)) {
    // The answer to a request got lost, with a daemon or on the way; or the request was for another batch, and this
    // may take a new launch. The change is under way until the run trains.
    dispatcher_.tell(dispatch::DevicesChanged{id, held, std::exchange(launcher.lost, 0), *look.step}, now);
  } else if (phase == dispatch::Phase::running && trains && !processes_.commands.contains(id) &&
             !holds(dispatcher_.state(), id, held)) {
    dispatcher_.tell(dispatch::DevicesChanged{id, held, 0, *look.step}, now);  // the job has lost devices
  }
  if (trains && phase == dispatch::Phase::starting) dispatcher_.tell(dispatch::TrainingBegan{id}, now);
  tell_progress(id, look);
}

// A link that is about as known is not news.
void JobNews::tell_links(const std::vector<LinkLook>& links) {
  constexpr double kSame = 0.1;
  for (const LinkLook& link : links) {
    const auto& known = dispatcher_.state().links;
    const auto at = known.find(link.host);
    if (at != known.end() &&
        std::abs(at->second.bytes_per_second - link.bytes_per_second) <= kSame * at->second.bytes_per_second)
      continue;
    dispatcher_.tell(dispatch::HostLinkMeasured{link.host, link.bytes_per_second, link.round_trip_seconds});
  }
}

void JobNews::tell_evaluations(JobId id) {
  if (!job_of(id).request.early_stop) return;
  const std::string path = run_directory::RunDirectory(hosts_.directory.run(id)).metrics();
  uint64_t& read = read_[id];
  if (size_of_file(path) < read) read = 0;
  try {
    LineReader lines(path, read);
    for (std::string_view line; lines.next(&line);) {
      const auto one = evaluation_in(line, *job_of(id).request.early_stop);
      if (one && one->step > job_of(id).evaluations.last.step) dispatcher_.tell(dispatch::JobEvaluated{id, *one});
    }
    read = lines.end();
  } catch (const Error&) {  // a file that cannot be read now: the next look tries again
  }
}

void JobNews::tell_last_evaluations(JobId id) {
  tell_evaluations(id);
  read_.erase(id);  // the next launch may write the file anew
}

// Tells the progress of a training job.
void JobNews::tell_progress(JobId id, const JobLook& look) {
  if (!look.step || !look.trains()) return;
  tell_evaluations(id);
  tell_links(look.links);
  const int64_t held = look.held ? std::ssize(*look.held) : 0;
  dispatcher_.tell(dispatch::Progressed{id, *look.step, look.total_steps, look.step_seconds, held, look.devices_at_work,
                                        look.mini_batches, look.worker_bytes});
}

void JobNews::on_task_ended(const std::string& host, const TellTaskEnd& event) {
  const JobId id = event.task.job;
  const ChildEnd end{.signaled = event.signaled, .code = static_cast<int>(event.code)};
  const auto command = processes_.commands.find(id);
  if (is_launcher(id, host, event.task)) {
    on_launcher_ended(id, end);
  } else if (command != processes_.commands.end() && command->second.task == event.task.id) {
    on_answer(id, end);
  } else if (event.task.kind == kRunAgent) {
    hosts_.run_agents.on_ended(event.task, seconds(monotonic_ns()));
  }
}

// The agent with the run's lock leads the run: the previous launcher has ended. A launcher on this host lives until the
// daemon hears its end. If both say that they lead, as after somebody deleted the lock file, the launcher stays known.
void JobNews::on_task_seen(const std::string& host, const TellLook& event) {
  const JobId id = event.task.job;
  const auto job = dispatcher_.state().jobs.find(id);
  if (job == dispatcher_.state().jobs.end() || !dispatch::is_up(job->second.phase)) return;
  if (!is_launcher(id, host, event.task)) {
    const auto launcher = processes_.launchers.find(id);
    const bool is_alive = launcher != processes_.launchers.end() && launcher->second.process.running();
    if (!event.leads || !event.look.held || is_alive) return;
    processes_.launchers[id] = {.is_child = false, .host = host, .task = event.task.id};
    processes_.orphans.remove(id);
    processes_.forget_command(id);
    const std::vector<std::string> held = pool_names(*event.look.held, host, hosts_.own);
    dispatcher_.tell(dispatch::Moved{id, host, held});
  }
  on_look(id, event.look);
}

bool JobNews::is_launcher(JobId id, const std::string& host, const Task& task) const {
  const auto launcher = processes_.launchers.find(id);
  return launcher != processes_.launchers.end() && launcher->second.host == host && launcher->second.task == task.id;
}

bool JobNews::forget_host(const std::string& host) {
  std::vector<JobId> led;
  for (const auto& [id, launcher] : processes_.launchers) {
    if (launcher.host == host) led.push_back(id);
  }
  for (const JobId id : led) {
    processes_.launchers.erase(id);
    processes_.forget_command(id);
  }
  for (const auto& [id, job] : dispatcher_.state().jobs) {
    if (dispatch::is_up(job.phase) && job.home == host) processes_.forget_command(id);
  }
  return !led.empty();
}

void JobNews::wait_for_heirs(const std::string& why) {
  for (const auto& [id, job] : dispatcher_.state().jobs) {
    if (job.is_leaderless) processes_.orphans.add(id, dispatch::host_lost(why), seconds(monotonic_ns()));
  }
}

void JobNews::give_up_orphans() {
  for (const auto& [id, ended] : processes_.orphans.take_lost(hosts_.agents, seconds(monotonic_ns()))) {
    tell_last_evaluations(id);
    dispatcher_.tell(dispatch::JobEnded{id, ended});
  }
}

}  // namespace estrain::pool

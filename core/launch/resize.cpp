// The launcher's part in changing the devices of a running job.

#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>

#include "core/base/clock.h"
#include "core/comm/reduction_tree.h"
#include "core/launch/launcher.h"

namespace estrain::launch {
namespace {

constexpr int64_t kLeaveNs = 300'000'000;  // for a worker to end once it was told to

// Which worker serves each wanted device: its index, or -1 for a device that needs a new one. The one that was asked
// for if it is there, else those that are there longest.
std::vector<int> match_devices(const std::vector<WorkerProcess*>& pool, const std::vector<Device>& wanted,
                               const std::vector<int64_t>& ids) {
  std::vector<bool> taken(pool.size(), false);
  std::vector<int> matched(wanted.size(), -1);
  const auto match = [&](size_t device, const auto& fits) {
    for (size_t i = 0; i < pool.size() && matched[device] < 0; ++i) {
      if (taken[i] || pool[i]->device.kind != wanted[device].kind || !fits(*pool[i])) continue;
      taken[i] = true;
      matched[device] = static_cast<int>(i);
    }
  };
  for (size_t i = 0; i < ids.size(); ++i) match(i, [&](const WorkerProcess& worker) { return worker.id == ids[i]; });
  for (size_t i = 0; i < wanted.size(); ++i) match(i, [](const WorkerProcess&) { return true; });
  return matched;
}

std::vector<WorkerProcess*> pool_of(std::vector<WorkerProcess>& present, std::vector<WorkerProcess>& added) {
  std::vector<WorkerProcess*> pool;
  for (WorkerProcess& worker : present) pool.push_back(&worker);
  for (WorkerProcess& worker : added) pool.push_back(&worker);
  return pool;
}

}  // namespace

// Refuses a change while another one, or something else that takes the workers, is under way.
void Launcher::require_quiet() const {
  if (ending_ != Ending::none) throw Error(Fault::usage, "the job is ending");
  if (phase_ == Phase::starting) throw Error(Fault::usage, "the job is still starting").advise("try again in a moment");
  if (phase_ == Phase::recovering)
    throw Error(Fault::usage, "the job is recovering from a fault").advise("try again in a moment");
  if (waits_for_room())
    throw Error(Fault::io, "the job waits for room on the disk: " + write_error_).advise("make room and try again");
  if (phase_ != Phase::training || state_.resize)
    throw Error(Fault::usage, "another resize is under way").advise("try again when it is done");
}

// Refuses devices that the job cannot have, or cannot have while it runs. Those that are there give their bits: others
// must be of their kind.
void Launcher::check_wanted(const Wanted& wanted) const {
  const std::vector<Device>& devices = wanted.devices;
  const bool mixed = state_.allow_mixed || wanted.mixed || spec_.job.determinism == spec::Determinism::d2;
  check_devices(devices, {.mixed = mixed, .oversubscribed = state_.oversubscribe || wanted.oversubscribe});
  std::vector<Device> all = devices_in_force();
  all.insert(all.end(), devices.begin(), devices.end());
  check_devices(all, {.mixed = mixed, .oversubscribed = true});
  if (!state_.cuda_streams && spec_.job.kernels == spec::Kernels::torch && std::ranges::any_of(devices, is_gpu)) {
    throw Error(Fault::infeasible, "the state of this run has no place for the random streams of a GPU")
        .advise("stop it, and go on from its checkpoint: estrain train --resume --run DIR --devices cuda:0");
  }
}

void Launcher::begin_resize(ClientId client, const Json& request) {
  require_quiet();
  const std::string list = request.value("devices", "");
  if (list == automatic_devices) return resize_as_planned(client);
  PendingChange resize;
  resize.client = client;
  resize.devices = parse_devices(list);
  const bool mixed = request.value("allow_mixed", false);
  check_wanted({resize.devices, request.value("oversubscribe", false), mixed});
  place_ests(resize.devices, spec_.job.ests);
  resize.held = kinds_of(resize.devices);
  resize.why = "asked to by `estrain resize`";
  state_.allow_mixed |= mixed;
  elastic_.trial.reset();
  begin_change(std::move(resize));
}

void Launcher::ask_for(PendingChange change, int64_t requested_ns) {
  change.asked_for = true;
  change.before = format_devices(devices_in_force());
  change.requested_ns = requested_ns;
  change.requested_step = trained();
  change.step_seconds_before = step_seconds();
  pending_ = std::move(change);
}

// `requested_ns`: when it was asked for, if not now.
void Launcher::begin_change(PendingChange change, std::optional<int64_t> requested_ns) {
  ask_for(std::move(change), requested_ns.value_or(monotonic_ns()));
  phase_ = Phase::warming;
  start_missing_workers();
  if (pending_ && pending_->added.empty()) added_worker_ready();
}

// Devices of the pending change that no worker serves: their places in its list.
std::vector<size_t> Launcher::missing_workers() {
  const std::vector<int> matched =
      match_devices(pool_of(state_.workers, pending_->added), pending_->devices, pending_->workers);
  std::vector<size_t> missing;
  for (size_t i = 0; i < matched.size(); ++i) {
    if (matched[i] < 0) missing.push_back(i);
  }
  return missing;
}

void Launcher::start_missing_workers() {
  start_missing_at_ns_ = 0;
  try {
    for (const size_t i : missing_workers())
      pending_->added.push_back(start_worker(directory_, state_.shared, worker_start(pending_->devices[i])));
  } catch (const Error& error) {
    cannot_start(error);
  }
}

void Launcher::added_worker_ready() {
  if (!std::ranges::all_of(pending_->added, &WorkerProcess::ready)) return;
  pending_->warmed_ns = monotonic_ns();
  request_pause();
}

// Those that the pending change leaves without a share.
std::vector<WorkerProcess*> Launcher::unneeded_workers() {
  const std::vector<WorkerProcess*> pool = pool_of(state_.workers, pending_->added);
  std::vector<bool> needed(pool.size(), false);
  for (int match : match_devices(pool, pending_->devices, pending_->workers)) {
    if (match >= 0) needed[static_cast<size_t>(match)] = true;
  }
  std::vector<WorkerProcess*> unneeded;
  for (size_t i = 0; i < state_.workers.size(); ++i) {
    if (!needed[i]) unneeded.push_back(pool[i]);
  }
  return unneeded;
}

// The job goes on with the devices it has.
void Launcher::give_up_resize(const Error& error) {
  for (WorkerProcess& worker : pending_->added) kill_worker(worker);
  if (!pending_->asked_for) return pending_.reset();
  directory_.log_event(
      "resize_failed",
      {{"step", trained()}, {"devices", format_devices(pending_->devices)}, {"error", error.message()}});
  const Error told =
      error.within("resize to " + format_devices(pending_->devices) + " given up, the job goes on as before");
  if (ending_ == Ending::none) printer_.note("warning: " + told.message());
  if (pending_->client) control_->reply(*pending_->client, error_answer(told));
  pending_.reset();
  if (phase_ == Phase::warming) phase_ = Phase::training;
}

// Once nobody is in its loop, everybody needed is there, and the scribe can take the committed copy.
void Launcher::change_workers_if_ready() {
  if (phase_ != Phase::pausing && phase_ != Phase::recovering) return;
  if (!pending_ || start_missing_at_ns_ != 0) return;
  if (!all_left() || !missing_workers().empty()) return;
  if (!std::ranges::all_of(pending_->added, &WorkerProcess::ready)) return;
  if (pending_->asked_for && !state_.scribe.socket) return;  // the next launcher takes over a scribe, too
  if (phase_ == Phase::recovering) {
    const int64_t redone = memory_->repair();
    if (state_.recovery) state_.recovery->steps_redone += redone;
  }
  // Where only shares move, nothing is saved that would have to be held.
  if (pending_->keeps_devices || memory_->try_hold(trained())) change_workers();
}

// All workers stand still: new ranges are handed out, then the launcher becomes a fresh one, if a user asked for other
// devices.
void Launcher::change_workers() {
  PendingChange change = std::move(*pending_);
  pending_.reset();
  const int64_t step = trained();
  log_stage_speed();
  note_shares();
  const std::vector<EstRange> ranges = place_ests(change.devices, spec_.job.ests);
  std::optional<ResizeUnderWay> under_way;
  if (change.asked_for) under_way = account_for(change);
  std::vector<WorkerProcess*> pool = pool_of(state_.workers, change.added);
  const std::vector<int> matched = match_devices(pool, change.devices, change.workers);
  std::vector<WorkerProcess> next;
  for (int match : matched) {
    next.push_back(std::move(*pool[static_cast<size_t>(match)]));
    next.back().device = change.devices[next.size() - 1];
    next.back().ests = ranges[next.size() - 1];
  }
  for (WorkerProcess* worker : pool) {  // moved from, or not needed any more
    if (worker->process.running()) state_.leaving.push_back(std::move(*worker));
  }
  state_.workers = std::move(next);
  state_.stage += 1;
  start_stage();
  if (!change.keeps_devices) state_.scribe.socket.send({{"do", "checkpoint"}, {"step", step}});
  for (WorkerProcess& worker : state_.leaving) worker.socket.send({{"do", "leave"}});
  phase_ = Phase::training;
  rate_from_ns_ = monotonic_ns();
  rate_from_step_ = step;
  move_watch_.reset();
  return_watch_.reset();
  fall_back_.reset();
  resize_watch_.reset();
  if (!under_way) return release_unused_slots();
  state_.held = std::move(change.held);
  elastic_.estimated_step_seconds = change.estimated_step_seconds;
  elastic_.plan_reason = change.plan_reason;
  state_.resize = std::move(under_way);
  if (change.keeps_devices) return;
  state_.elasticity = elastic_.to_json();
  state_.profiles = companion_->profiles.to_json();
  state_.listener = control_->listener();
  state_.clients = control_->clients();
  reexec(state_);  // returns where exec failed: then this launcher goes on
}

ResizeUnderWay Launcher::account_for(const PendingChange& resize) {
  const int64_t step = trained();
  ResizeUnderWay under_way;
  under_way.client = resize.client;
  under_way.answer = resize.answer;
  under_way.why = resize.why;
  under_way.gives_back = resize.give_back_ns.has_value();
  under_way.keeps_devices = resize.keeps_devices;
  under_way.before = resize.before;
  under_way.after = format_devices(resize.devices);
  under_way.step = step;
  under_way.requested_ns = resize.requested_ns;
  under_way.warmed_ns = resize.warmed_ns > 0 ? resize.warmed_ns : monotonic_ns();
  // Where a fault came in between, from when it was noticed.
  under_way.stopped_ns = phase_ == Phase::recovering ? stood_still_ns_ : memory_->header().stopped_ns.load();
  under_way.step_seconds_before = resize.step_seconds_before;
  const int64_t warming_steps = step - resize.requested_step;
  if (warming_steps > 0)
    under_way.step_seconds_warming =
        seconds(under_way.stopped_ns - resize.requested_ns) / static_cast<double>(warming_steps);
  return under_way;
}

// Gradient slots beyond those that the stage's workers fold into give their memory back.
void Launcher::release_unused_slots() {
  int64_t used = 0;
  for (const WorkerProcess& worker : state_.workers) {
    used += comm::plan_fold(comm::SumOrder::tree, spec_.job.ests, worker.ests).buffers;
  }
  memory_->release_gradient_slots(used);
}

void Launcher::report_resize_if_begun() {
  const comm::MemoryHeader& header = memory_->header();
  if (header.stage_started.load() < state_.workers.size()) return;
  const ResizeUnderWay& done = *state_.resize;
  if (done.gives_back && !state_.leaving.empty()) return hurry_leaving();  // somebody waits for their devices
  const double stood_still = seconds(header.stage_started_ns.load() - done.stopped_ns);
  const double warming = seconds(done.warmed_ns - done.requested_ns);
  const double lost = done.step_seconds_warming > 0 && done.step_seconds_before > 0
                          ? warming * std::max(0.0, 1 - done.step_seconds_before / done.step_seconds_warming)
                          : 0;
  const auto count = [](const std::string& list) { return 1 + std::ranges::count(list, ','); };
  Json ests = Json::array();
  for (const WorkerProcess& worker : state_.workers) ests.push_back(worker.ests.size());
  Json details = {{"step", done.step},
                  {"from", done.before},
                  {"to", done.after},
                  {"ests", ests},
                  {"why", done.why},
                  {"stood_still_seconds", stood_still},
                  {"warming_seconds", warming},
                  {"lost_while_warming_seconds", lost}};
  if (elastic_.estimated_step_seconds > 0) details["estimated_step_seconds"] = elastic_.estimated_step_seconds;
  directory_.log_event(done.keeps_devices ? "rebalance" : "resize", details);
  std::string line = done.keeps_devices
                         ? fmt::format("step {}: ESTs moved, {} a worker now, stood still {:.3f} s: {}", done.step,
                                       fmt::join(ests.get<std::vector<int64_t>>(), ", "), stood_still, done.why)
                         : fmt::format("step {}: {} -> {} workers, stood still {:.3f} s", done.step, count(done.before),
                                       count(done.after), stood_still);
  if (count(done.after) > count(done.before))
    line += fmt::format(", warming took {:.2f} s and cost {:.2f} s", warming, lost);
  printer_.note(line);
  elastic_.count_change(stood_still + lost, done.keeps_devices);
  if (done.gives_back) {
    details["seconds"] = seconds(monotonic_ns() - done.requested_ns);
    directory_.log_event("reclaimed", {{"step", done.step}, {"seconds", details["seconds"]}});
  }
  details["ok"] = true;
  details["message"] = line;
  if (done.answer) details.update(*done.answer);
  if (done.client) control_->reply(*done.client, details);
  state_.resize.reset();
  release_unused_slots();
  rate_from_ns_ = header.stage_started_ns.load();
  rate_from_step_ = done.step;
}

// They have been told to leave, and should be gone in a moment.
void Launcher::hurry_leaving() {
  const int64_t told_ns = memory_->header().stage_started_ns.load();
  if (monotonic_ns() - told_ns < kLeaveNs) return;
  for (WorkerProcess& worker : state_.leaving) worker.process.signal(SIGKILL);
}

}  // namespace estrain::launch

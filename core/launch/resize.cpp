// The launcher's part in changing the devices of a running job.

#include <algorithm>
#include <csignal>

#include "core/base/clock.h"
#include "core/comm/reduction_tree.h"
#include "core/launch/launcher.h"

namespace estrain::launch {
namespace {

std::vector<Device> devices_of(const std::vector<WorkerProcess>& workers) {
  std::vector<Device> devices;
  for (const WorkerProcess& worker : workers) devices.push_back(worker.device);
  return devices;
}

// Which present worker serves each wanted device: its index, or -1 for a device that needs a new one.
std::vector<int> match_devices(const std::vector<WorkerProcess>& present, const std::vector<Device>& wanted) {
  std::vector<bool> taken(present.size(), false);
  std::vector<int> matched;
  for (const Device& device : wanted) {
    int match = -1;
    for (size_t i = 0; i < present.size() && match < 0; ++i) {
      if (!taken[i] && present[i].device.kind == device.kind) match = static_cast<int>(i);
    }
    if (match >= 0) taken[static_cast<size_t>(match)] = true;
    matched.push_back(match);
  }
  return matched;
}

}  // namespace

void Launcher::begin_resize(ClientId client, const Json& request) {
  if (ending_ != Ending::none) throw Error(Fault::usage, "the job is ending");
  if (phase_ == Phase::starting) throw Error(Fault::usage, "the job is still starting").advise("try again in a moment");
  if (phase_ != Phase::training || state_.resize)
    throw Error(Fault::usage, "another resize is under way").advise("try again when it is done");
  PendingResize resize;
  resize.client = client;
  resize.devices = parse_devices(request.value("devices", ""));
  check_devices(resize.devices, state_.allow_mixed || spec_.job.determinism == spec::Determinism::d2);
  place_ests(resize.devices, spec_.job.ests);
  resize.requested_ns = monotonic_ns();
  resize.requested_step = committed();
  resize.step_seconds_before = step_seconds();
  const std::vector<int> matched = match_devices(state_.workers, resize.devices);
  for (size_t i = 0; i < matched.size(); ++i) {
    if (matched[i] >= 0) continue;
    const WorkerStart start{state_.workers_started++, resize.devices[i], spec_.job.threads, false, ""};
    resize.added.push_back(start_worker(directory_, state_.shared, start));
  }
  pending_ = std::move(resize);
  phase_ = Phase::warming;
  if (pending_->added.empty()) added_worker_ready();
}

void Launcher::added_worker_ready() {
  if (!std::ranges::all_of(pending_->added, &WorkerProcess::ready)) return;
  pending_->warmed_ns = monotonic_ns();
  request_pause();
}

// The job goes on with the devices it has.
void Launcher::give_up_resize(const Error& error) {
  for (WorkerProcess& worker : pending_->added) {
    worker.process.signal(SIGKILL);
    if (worker.process.running()) worker.process.wait();
  }
  directory_.log_event(
      "resize_failed",
      {{"step", committed()}, {"devices", format_devices(pending_->devices)}, {"error", error.message()}});
  const Error told =
      error.within("resize to " + format_devices(pending_->devices) + " given up, the job goes on as before");
  if (ending_ == Ending::none) printer_.note("warning: " + told.message());
  if (pending_->client) control_->reply(*pending_->client, error_answer(told));
  pending_.reset();
  if (phase_ == Phase::warming) phase_ = Phase::training;
}

// All workers stand still: new ranges are handed out, then the launcher becomes a fresh one.
void Launcher::change_workers() {
  PendingResize resize = std::move(*pending_);
  pending_.reset();
  const int64_t step = committed();
  const std::vector<EstRange> ranges = place_ests(resize.devices, spec_.job.ests);
  const std::vector<int> matched = match_devices(state_.workers, resize.devices);
  ResizeUnderWay under_way;
  under_way.client = resize.client;
  under_way.before = format_devices(devices_of(state_.workers));
  under_way.after = format_devices(resize.devices);
  under_way.step = step;
  under_way.requested_ns = resize.requested_ns;
  under_way.warmed_ns = resize.warmed_ns;
  under_way.stopped_ns = memory_->header().stopped_ns.load();
  under_way.step_seconds_before = resize.step_seconds_before;
  const int64_t warming_steps = step - resize.requested_step;
  if (warming_steps > 0)
    under_way.step_seconds_warming =
        seconds(under_way.stopped_ns - resize.requested_ns) / static_cast<double>(warming_steps);

  std::vector<WorkerProcess> next;
  size_t added = 0;
  for (int match : matched) {
    next.push_back(std::move(match >= 0 ? state_.workers[static_cast<size_t>(match)] : resize.added[added++]));
    next.back().ests = ranges[next.size() - 1];
  }
  for (WorkerProcess& worker : state_.workers) {
    if (worker.process.running()) state_.leaving.push_back(std::move(worker));
  }
  state_.workers = std::move(next);
  state_.stage += 1;
  memory_->hold(step);
  start_stage();
  state_.scribe.socket.send({{"do", "checkpoint"}, {"step", step}});
  for (WorkerProcess& worker : state_.leaving) worker.socket.send({{"do", "leave"}});
  state_.resize = std::move(under_way);
  state_.listener = control_->listener();
  state_.clients = control_->clients();
  reexec(state_);
  phase_ = Phase::training;  // exec failed: this launcher goes on
  rate_from_ns_ = monotonic_ns();
  rate_from_step_ = step;
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
  const double stood_still = seconds(header.stage_started_ns.load() - done.stopped_ns);
  const double warming = seconds(done.warmed_ns - done.requested_ns);
  const double lost = done.step_seconds_warming > 0 && done.step_seconds_before > 0
                          ? warming * std::max(0.0, 1 - done.step_seconds_before / done.step_seconds_warming)
                          : 0;
  const auto count = [](const std::string& list) { return 1 + std::ranges::count(list, ','); };
  Json details = {{"step", done.step},          {"from", done.before},
                  {"to", done.after},           {"stood_still_seconds", stood_still},
                  {"warming_seconds", warming}, {"lost_while_warming_seconds", lost}};
  directory_.log_event("resize", details);
  std::string line = fmt::format("step {}: {} -> {} workers, stood still {:.3f} s", done.step, count(done.before),
                                 count(done.after), stood_still);
  if (count(done.after) > count(done.before))
    line += fmt::format(", warming took {:.2f} s and cost {:.2f} s", warming, lost);
  printer_.note(line);
  details["ok"] = true;
  details["message"] = line;
  if (done.client) control_->reply(*done.client, details);
  state_.resize.reset();
  release_unused_slots();
  rate_from_ns_ = header.stage_started_ns.load();
  rate_from_step_ = done.step;
}

}  // namespace estrain::launch

// The launcher's part in changing the devices of a running job: what is refused, how a stage is begun, what is told.

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/base/clock.h"
#include "core/comm/reduction_tree.h"
#include "core/launch/launcher.h"
#include "core/launch/profiling.h"
#include "core/spec/enum_names.h"

namespace estrain::launch {

using conduct::Member;

// Refuses devices that the job cannot have, or cannot have while it runs. Those that are there give their bits: others
// must be of their kind.
void Launcher::check_wanted(const Wanted& wanted) const {
  const std::vector<Device>& devices = wanted.devices;
  check_hosts(devices, spec_);
  const bool mixed = state_.allow_mixed || wanted.mixed || spec_.job.determinism == spec::Determinism::d2;
  check_devices(devices, {.mixed = mixed, .oversubscribed = state_.oversubscribe || wanted.oversubscribe});
  std::vector<Device> all = devices_in_force(job_);
  all.insert(all.end(), devices.begin(), devices.end());
  check_devices(all, {.mixed = mixed, .oversubscribed = true});
  if (!state_.cuda_streams && spec_.job.kernels == spec::Kernels::torch && std::ranges::any_of(devices, is_gpu)) {
    throw Error(Fault::infeasible, "the state of this run has no place for the random streams of a GPU")
        .advise("stop it, and go on from its checkpoint: estrain train --resume --run DIR --devices cuda:0");
  }
}

void Launcher::begin_resize(ClientId client, const Json& request) {
  if (const auto no = why_not_now(job_, moment())) throw Error(*no);
  const std::string list = request.value("devices", "");
  if (list == automatic_devices) return resize_as_planned(client);
  conduct::PendingChange resize;
  resize.client = client;
  resize.devices = parse_devices(list);
  const bool mixed = request.value("allow_mixed", false);
  check_wanted({resize.devices, request.value("oversubscribe", false), mixed});
  place_ests(resize.devices, spec_.job.ests);
  resize.held = kinds_of(resize.devices);
  resize.why = "asked to by `estrain resize`";
  state_.allow_mixed |= mixed;
  adviser_.past().trial.reset();
  decide(conduct::ChangeAsked{std::move(resize), {}});
}

// All first workers are ready: the step-0 checkpoint is asked for.
void Launcher::begin_training() {
  attach_memory();
  state_.start_seconds = seconds(monotonic_ns() - state_.started_ns);
  load_profiles();
  const int64_t step = trained();
  adviser_.past().stage_began = step;
  if (step == 0) {
    memory_->hold().hold(Step(0));
    state_.scribe.socket.send({{"do", "checkpoint"}, {"step", 0}});
  }
  printer_.note(fmt::format("{}: {} with {} parameters, {} ESTs on {}, {} of {} steps to go, run directory {}",
                            spec_.job.name, spec_.model.name, manifest_->parameter_count, spec_.job.ests,
                            progress().devices, std::max<int64_t>(0, manifest_->total_steps - step),
                            manifest_->total_steps, directory_.path()));
  const bool any_kind = spec_.job.determinism == spec::Determinism::d2;
  if (!any_kind && !checkpoint_cpu_.empty() && checkpoint_cpu_ != manifest_->processor) {
    printer_.note(
        fmt::format("warning: the checkpoint was made on another kind of processor ({}) than this one ({}); at {} the "
                    "bits may differ from here on",
                    checkpoint_cpu_, manifest_->processor, spec::to_string(spec_.job.determinism)));
  }
}

// Whether workers pass data to each other by their devices: all are GPUs, each with one worker.
bool Launcher::workers_exchange() const {
  if (!hosts_in_force().empty()) return false;
  std::set<std::string> kinds;
  for (const Member& worker : job_.workers) {
    if (!is_gpu(worker.device)) return false;
    kinds.insert(worker.device.kind);
  }
  return spec_.job.exchange == spec::Exchange::automatic && kinds.size() > 1 && kinds.size() == job_.workers.size();
}

// Hands the ranges to the workers; they start at once.
void Launcher::start_stage() {
  memory_->open_stage();
  sentry_.measure_on(kinds_of(devices_in_force(job_)), *memory_, true);
  adviser_.begin_stage(job_, Step(trained()));
  Json ranges = Json::array(), devices = Json::array();
  for (const Member& worker : job_.workers) {
    ranges.push_back({worker.ests.begin.value, worker.ests.end.value});
    devices.push_back(worker.device.kind);
  }
  const bool exchanges = workers_exchange();
  begin_stage_on_hosts();
  const bool restarted = job_.stage > 0 || !checkpoint_.empty();
  for (size_t index = 0; index < job_.workers.size(); ++index) {
    WorkerProcess* worker = process_of(job_.workers[index].id);
    if (worker == nullptr) continue;
    Json order = order_of(index);
    order["restarted"] = restarted;
    order["exchanges"] = exchanges;
    worker->socket.send(order);
  }
  directory_.log_event("stage", {{"stage", job_.stage},
                                 {"step", trained()},
                                 {"workers", job_.workers.size()},
                                 {"devices", devices},
                                 {"exchange", exchanges                  ? "GPUs"
                                              : hosts_in_force().empty() ? "host"
                                                                         : "hosts"},
                                 {"ranges", ranges}});
}

// Gradient slots beyond those that the stage's workers fold into give their memory back.
void Launcher::release_unused_slots() {
  int64_t used = 0;
  for (const Member& worker : job_.workers) {
    used += comm::plan_fold(comm::SumOrder::tree, spec_.job.ests, worker.ests).buffers;
  }
  memory_->release_gradient_slots(used);
}

void Launcher::report_resize(const conduct::ResizeUnderWay& done) {
  const int64_t started_ns = memory_->gate().started_ns();
  const double stood_still = seconds(started_ns - done.stopped_ns);
  const double warming = seconds(done.warmed_ns - done.requested_ns);
  const double lost = done.step_seconds_warming > 0 && done.step_seconds_before > 0
                          ? warming * std::max(0.0, 1 - done.step_seconds_before / done.step_seconds_warming)
                          : 0;
  const auto count = [](const std::string& list) { return 1 + std::ranges::count(list, ','); };
  Json ests = Json::array();
  for (const Member& worker : job_.workers) ests.push_back(worker.ests.size());
  Json details = {{"step", done.step.value},
                  {"from", done.before},
                  {"to", done.after},
                  {"ests", ests},
                  {"why", done.why},
                  {"stood_still_seconds", stood_still},
                  {"warming_seconds", warming},
                  {"lost_while_warming_seconds", lost}};
  if (adviser_.past().estimated_step_seconds > 0)
    details["estimated_step_seconds"] = adviser_.past().estimated_step_seconds;
  directory_.log_event(done.keeps_devices ? "rebalance" : "resize", details);
  std::string line = done.keeps_devices
                         ? fmt::format("step {}: ESTs moved, {} a worker now, stood still {:.3f} s: {}", done.step,
                                       fmt::join(ests.get<std::vector<int64_t>>(), ", "), stood_still, done.why)
                         : fmt::format("step {}: {} -> {} workers, stood still {:.3f} s", done.step, count(done.before),
                                       count(done.after), stood_still);
  if (count(done.after) > count(done.before))
    line += fmt::format(", warming took {:.2f} s and cost {:.2f} s", warming, lost);
  printer_.note(line);
  adviser_.past().count_change(stood_still + lost, done.keeps_devices);
  if (done.gives_back) {
    details["seconds"] = seconds(monotonic_ns() - done.requested_ns);
    directory_.log_event("reclaimed", {{"step", done.step.value}, {"seconds", details["seconds"]}});
  }
  details["ok"] = true;
  details["message"] = line;
  if (done.answer) details.update(*done.answer);
  if (done.client) control_->reply(*done.client, details);
  release_unused_slots();
  rate_from_ns_ = started_ns;
  rate_from_step_ = done.step.value;
}

}  // namespace estrain::launch

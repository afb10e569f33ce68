#include "core/run/launch/launcher/parts/stages.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/base/clock.h"
#include "core/job/spec/enum_names.h"
#include "core/run/launch/control/status.h"
#include "core/run/launch/preflight/devices.h"
#include "core/state/comm/stage_control.h"
#include "core/state/comm/sums/reduction_tree.h"

namespace estrain::launch {

using decisions::Member;

void Stages::begin_training() {
  run_.attach_memory();
  try {
    run_.put_on_record();
  } catch (const Error& error) {
    run_.decide(decisions::CannotGoOn{error});
  }
  measure_rate_from(monotonic_ns(), run_.trained());
  run_.state.start_seconds = seconds(monotonic_ns() - run_.state.started_ns);
  const int64_t step = run_.trained();
  run_.adviser.past().stage_began = step;
  if (step == 0) {
    run_.memory->hold().hold(Step(0));
    run_.state.scribe.socket.send(record::SaveState{Step(0)});
  }
  run_.printer.note(fmt::format("{}: {} with {} parameters, {} ESTs on {}, {} of {} steps to go, run directory {}",
                                run_.spec.job.name, run_.spec.model.name, run_.manifest->parameter_count,
                                run_.spec.job.ests, counted_devices(devices_of(devices_in_force(run_.job))),
                                std::max<int64_t>(0, run_.manifest->total_steps - step), run_.manifest->total_steps,
                                run_.directory.path()));
  const bool any_kind = run_.spec.job.determinism == spec::Determinism::d2;
  if (!any_kind && !run_.origin.processor.empty() && run_.origin.processor != run_.manifest->processor) {
    run_.printer.note(
        fmt::format("warning: the checkpoint was made on another kind of processor ({}) than this one ({}); at {} the "
                    "bits may differ from here on",
                    run_.origin.processor, run_.manifest->processor, spec::to_string(run_.spec.job.determinism)));
  }
}

void Stages::go_on() {
  first_step_seen_ = true;
  measure_rate_from(monotonic_ns(), run_.trained());
  sentry_.measure_on(devices_of(devices_in_force(run_.job)), *run_.memory, false);
  run_.adviser.begin_stage(run_.job, Step(run_.trained()));
}

void Stages::measure_rate_from(int64_t ns, int64_t step) {
  rate_from_ns_ = ns;
  rate_from_step_ = step;
}

void Stages::open(const decisions::OpenStage& open) {
  if (!open.changed) return start();
  log_speed(run_.job.stage - 1);
  start();
  measure_rate_from(monotonic_ns(), run_.trained());
  run_.adviser.forget_trends();
}

decisions::StageClosed Stages::close(const decisions::CloseStage& close) {
  decisions::StageClosed closed;
  if (close.repair) closed.steps_redone = comm::StageControl(*run_.memory).repair();
  closed.held = !close.hold || run_.memory->hold().try_hold(Step(run_.trained()));
  return closed;
}

// Assigns the ranges to the workers, which start at once.
void Stages::start() {
  comm::StageControl(*run_.memory).open();
  sentry_.measure_on(devices_of(devices_in_force(run_.job)), *run_.memory, true);
  run_.adviser.begin_stage(run_.job, Step(run_.trained()));
  comm::RunStage order;
  std::vector<EstRange> ranges;
  Json devices = Json::array();
  for (const Member& worker : run_.job.workers) {
    ranges.push_back(worker.ests);
    devices.push_back(worker.device.text());
  }
  order.exchanges = workers_exchange();
  order.restarted = run_.job.stage > 0 || !run_.origin.checkpoint.empty();
  hosts_.begin_stage();
  for (size_t index = 0; index < run_.job.workers.size(); ++index) {
    WorkerProcess* worker = process_of(run_.state.workers, run_.job.workers[index].id);
    if (worker == nullptr) continue;
    hosts_.place(index, order);
    worker->socket.send(order);
  }
  run_.directory.log_event("stage", {{"stage", run_.job.stage},
                                     {"step", run_.trained()},
                                     {"workers", run_.job.workers.size()},
                                     {"devices", devices},
                                     {"exchange", order.exchanges           ? "GPUs"
                                                  : hosts_.others().empty() ? "host"
                                                                            : "hosts"},
                                     {"ranges", codec::to_field(ranges)}});
}

// Tells whether workers pass data directly between devices: all devices are GPUs, each with a single worker.
bool Stages::workers_exchange() const {
  if (!hosts_.others().empty()) return false;
  std::set<Device> gpus;
  for (const Member& worker : run_.job.workers) {
    if (!worker.device.is_gpu()) return false;
    gpus.insert(worker.device);
  }
  return run_.spec.job.exchange == spec::Exchange::automatic && gpus.size() > 1 &&
         gpus.size() == run_.job.workers.size();
}

// Releases the memory of gradient slots which the stage's workers do not fold into.
void Stages::release_unused_slots() {
  int64_t used = 0;
  for (const Member& worker : run_.job.workers) {
    used += comm::plan_fold(comm::SumOrder::tree, run_.spec.job.ests, worker.ests).buffers;
  }
  run_.memory->gradients().release_from(used);
}

void Stages::report_resize(const decisions::ResizeUnderWay& done) {
  const int64_t started_ns = run_.memory->gate().started_ns();
  const double stood_still = seconds(started_ns - done.stopped_ns);
  const double warming = seconds(done.warmed_ns - done.requested_ns);
  const double lost = done.step_seconds_warming > 0 && done.step_seconds_before > 0
                          ? warming * std::max(0.0, 1 - done.step_seconds_before / done.step_seconds_warming)
                          : 0;
  const auto count = [](const std::string& list) { return 1 + std::ranges::count(list, ','); };
  Json ests = Json::array();
  for (const Member& worker : run_.job.workers) ests.push_back(worker.ests.size());
  Json details = {{"step", done.step.value},
                  {"from", done.before},
                  {"to", done.after},
                  {"ests", ests},
                  {"why", done.why},
                  {"stood_still_seconds", stood_still},
                  {"warming_seconds", warming},
                  {"lost_while_warming_seconds", lost}};
  if (run_.adviser.past().estimated_step_seconds > 0)
    details["estimated_step_seconds"] = run_.adviser.past().estimated_step_seconds;
  run_.directory.log_event(done.keeps_devices ? "rebalance" : "resize", details);
  std::string line = done.keeps_devices
                         ? fmt::format("step {}: ESTs moved, {} a worker now, stood still {:.3f} s: {}", done.step,
                                       fmt::join(ests.get<std::vector<int64_t>>(), ", "), stood_still, done.why)
                         : fmt::format("step {}: {} -> {} workers, stood still {:.3f} s", done.step, count(done.before),
                                       count(done.after), stood_still);
  if (count(done.after) > count(done.before))
    line += fmt::format(", warming took {:.2f} s and cost {:.2f} s", warming, lost);
  run_.printer.note(line);
  run_.adviser.past().count_change(stood_still + lost, done.keeps_devices);
  if (done.gives_back) {
    details["seconds"] = seconds(monotonic_ns() - done.requested_ns);
    run_.directory.log_event("reclaimed", {{"step", done.step.value}, {"seconds", details["seconds"]}});
  }
  details["ok"] = true;
  details["message"] = line;
  if (done.answer) details.update(*done.answer);
  if (done.client) run_.control->reply(*done.client, details);
  release_unused_slots();
  measure_rate_from(started_ns, done.step.value);
}

void Stages::report_recovery(const decisions::ReportRecovery& report) {
  const decisions::Loss& loss = report.loss;
  run_.directory.log_event("recovered", {{"step", loss.step.value},
                                         {"worker", loss.worker.value},
                                         {"cause", loss.cause},
                                         {"seconds_to_next_step", report.seconds},
                                         {"committed_steps_redone", loss.steps_redone},
                                         {"devices", counted_devices(devices_of(devices_in_force(run_.job)))}});
  run_.printer.note(fmt::format(
      "step {}: recovered from the loss of worker {} in {:.2f} s; {}", loss.step, loss.worker, report.seconds,
      loss.steps_redone == 0 ? "no committed step was redone"
                             : fmt::format("{} steps were redone, the same way", loss.steps_redone)));
}

void Stages::log_speed(int64_t stage) {
  const SpeedMeter::Span& span = run_.adviser.meter().stage();
  run_.adviser.end_stage(Step(run_.trained()), monotonic_ns());
  if (span.steps == 0) return;
  Json workers = Json::array();
  for (size_t rank = 0; rank < span.workers.size(); ++rank) {
    const SpeedMeter::Worker& worker = span.workers[rank];
    workers.push_back({{"worker", worker.id},
                       {"device", worker.kind},
                       {"ests", worker.ests},
                       {"mini_batches", worker.mini_batches},
                       {"computing_seconds", static_cast<double>(worker.computing_ns) * 1e-9},
                       {"seconds_waiting_for_data", static_cast<double>(worker.reading_ns) * 1e-9}});
  }
  run_.directory.log_event("stage_speed", {{"stage", stage},
                                           {"from_step", span.from_step},
                                           {"to_step", span.to_step},
                                           {"steps", span.steps},
                                           {"seconds", span.seconds},
                                           {"exchange_seconds", span.exchange_seconds()},
                                           {"workers", workers}});
  tell_of_slow_reading(span);
}

void Stages::tell_of_slow_reading(const SpeedMeter::Span& span) {
  if (span.reading_share() < kNotableDataWait) return;
  const std::string advice =
      run_.spec.data.readers == 0
          ? "a faster disk, smaller files or more cores would help"
          : fmt::format("try data.readers = 0 (now {}), which finds their number", run_.spec.data.readers);
  run_.printer.note(fmt::format("steps {} to {}: {:.0f} % of the workers' time was spent waiting for data; {}",
                                span.from_step + 1, span.to_step, 100 * span.reading_share(), advice));
}

void Stages::note_first_step() {
  const uint32_t published = run_.memory->ring().published();
  if (published == 0 || first_step_seen_) return;
  first_step_seen_ = true;
  if (published >= run_.memory->ring().capacity()) return;  // the ring has overwritten the first record
  const comm::RecordHead& first = *run_.memory->ring().at(0).head;
  run_.directory.log_event("first_step",
                           {{"step", first.step.value}, {"seconds", seconds(first.time_ns - run_.state.started_ns)}});
}

double Stages::step_seconds() const {
  const int64_t steps = run_.trained() - rate_from_step_;
  return steps > 0 ? seconds(monotonic_ns() - rate_from_ns_) / static_cast<double>(steps) : 0;
}

}  // namespace estrain::launch

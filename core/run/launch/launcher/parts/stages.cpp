#include "core/run/launch/launcher/parts/stages.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/clock.h"
#include "core/base/counted.h"
#include "core/job/spec/enum_names.h"
#include "core/run/launch/control/status.h"
#include "core/run/launch/preflight/devices.h"
#include "core/state/comm/stage_control.h"
#include "core/state/comm/sums/reduction_tree.h"
#include "core/state/run_directory/batch_changes.h"

namespace estrain::launch {

using decisions::Member;

namespace {

const char* name_of_exchange(bool between_gpus, bool over_hosts) {
  if (between_gpus) return over_hosts ? "GPUs of hosts" : "GPUs";
  return over_hosts ? "hosts" : "host";
}

}  // namespace

void Stages::begin_training() {
  const int64_t step = run_.trained();
  if (step == 0) {
    run_.memory->hold().hold(Step(0));
    processes_.scribe.socket.send(record::SaveState{Step(0)});
  }
  run_.journal.note(fmt::format("{}: {} with {} parameters, {} on {}, {} of {} steps to go, run directory {}",
                                run_.spec.job.name, run_.spec.model.name, run_.memory.manifest().parameter_count,
                                counted(run_.spec.job.ests, "EST"),
                                counted_devices(devices_of(devices_in_force(run_.job))),
                                std::max<int64_t>(0, run_.memory.manifest().total_steps - step),
                                run_.memory.manifest().total_steps, run_.journal.directory.path()));
  const int64_t epochs = run_.spec.train.epochs.value_or(0), total = run_.memory.manifest().total_steps;
  if (epochs > 0 && step > 0 && step >= total) {
    const int64_t begun = step / std::max<int64_t>(1, total / epochs);  // above `epochs` if a resume asked for fewer
    run_.journal.note(
        fmt::format("step {} is done, train.epochs is {}: nothing is left to train; to train on: --set "
                    "train.epochs={}",
                    step, epochs, std::max(epochs, begun) + 1));
  }
  const bool any_kind = run_.spec.job.determinism == spec::Determinism::d2;
  if (!any_kind && !run_.origin.processor.empty() && run_.origin.processor != run_.memory.manifest().processor) {
    run_.journal.note(fmt::format(
        "warning: the checkpoint was made on another kind of processor ({}) than this one ({}); at {} the "
        "bits may differ from here on",
        run_.origin.processor, run_.memory.manifest().processor, spec::to_string(run_.spec.job.determinism)));
  }
}

decisions::StageClosed Stages::close(const decisions::CloseStage& close) const {
  decisions::StageClosed closed;
  if (close.repair) closed.steps_redone = comm::StageControl(*run_.memory).repair();
  closed.held = !close.hold || run_.memory->hold().try_hold(Step(run_.trained()));
  return closed;
}

// In shared memory first: a worker takes the message for no longer asked otherwise.
void Stages::prepare_exchange(const decisions::PrepareExchange& prepare) const {
  run_.memory->meetings().ask_exchange(prepare.ticket);
  const int64_t workers = std::ssize(prepare.workers);
  for (int64_t rank = 0; rank < workers; ++rank) {
    WorkerProcess* worker = process_of(processes_.workers, prepare.workers[static_cast<size_t>(rank)]);
    if (worker != nullptr) worker->socket.send(comm::ExchangeOrder{prepare.ticket, rank, workers});
  }
}

void Stages::start(int64_t exchange) {
  comm::RunStage order;
  std::vector<EstRange> ranges;
  Json devices = Json::array();
  for (const Member& worker : run_.job.workers) {
    ranges.push_back(worker.ests);
    devices.push_back(worker.device.text());
  }
  const std::optional<SumOverHosts> over_hosts = hosts_.sums();
  order.exchanges = over_hosts ? over_hosts == SumOverHosts::by_gpus
                               : exchange_between_gpus(run_.job, devices_of(devices_in_force(run_.job)));
  order.exchange = exchange;
  order.changes = run_.memory->batch_changes().all();
  order.restarted = run_.job.stage > 0 || !run_.origin.checkpoint.empty();
  hosts_.begin_stage();
  for (size_t index = 0; index < run_.job.workers.size(); ++index) {
    WorkerProcess* worker = process_of(processes_.workers, run_.job.workers[index].id);
    if (worker == nullptr) continue;
    hosts_.place(index, order);
    worker->socket.send(order);
  }
  run_.journal.log("stage", {{"stage", run_.job.stage},
                             {"step", run_.trained()},
                             {"workers", run_.job.workers.size()},
                             {"devices", devices},
                             {"exchange", name_of_exchange(order.exchanges, over_hosts.has_value())},
                             {"ranges", codec::to_field(ranges)}});
  if (over_hosts == SumOverHosts::in_secret && !std::exchange(told_of_secrecy_, true))
    run_.journal.note(
        "the GPUs of several hosts exchange gradients through the memory of the hosts: NCCL, which does not encrypt, "
        "is for networks with network.secrecy = \"control\"");
}

// Releases the memory of gradient slots which the stage's workers do not fold into. The stage may be under way. Over
// several hosts the last slot may have factors of gradients (core/state/comm/gradient_factors.h).
void Stages::release_unused_slots() const {
  int64_t used = 0;
  for (const Member& worker : run_.job.workers) {
    used += comm::plan_fold(comm::SumOrder::tree, run_.spec.job.ests, worker.ests).buffers;
  }
  const int64_t slots = run_.memory->ests();
  run_.memory->gradients().release(used, hosts_.others().empty() ? slots : slots - 1);
}

Json Stages::report_batch(const decisions::ResizeUnderWay& done, double stood_still) const {
  Json answer = *done.answer;
  if (!answer.value("ok", false)) return answer;
  answer["stood_still_seconds"] = stood_still;
  run_.journal.note(fmt::format("step {}: {}, stood still {:.3f} s", done.step,
                                run_directory::in_words(run_directory::in_force(run_.spec, done.step)), stood_still));
  return answer;
}

Json Stages::report_resize(const decisions::ResizeUnderWay& done, Speeds& speeds) const {
  const MonotonicTime started = monotonic_time(run_.memory->gate().started_ns());
  const double stood_still = seconds(started - done.stopped).count();
  if (done.changes_batch) return report_batch(done, stood_still);
  const double warming = seconds(done.warmed - done.requested).count();
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
  const double estimated = speeds.adviser().past.estimated_step_seconds;
  if (estimated > 0) details["estimated_step_seconds"] = estimated;
  run_.journal.log(done.keeps_devices ? "rebalance" : "resize", details);
  std::string line = done.keeps_devices
                         ? fmt::format("step {}: ESTs moved, {} a worker now, stood still {:.3f} s: {}", done.step,
                                       fmt::join(ests.get<std::vector<int64_t>>(), ", "), stood_still, done.why)
                         : fmt::format("step {}: {} -> {}, stood still {:.3f} s", done.step, count(done.before),
                                       counted(count(done.after), "worker"), stood_still);
  if (count(done.after) > count(done.before))
    line += fmt::format(", warming took {:.2f} s and cost {:.2f} s", warming, lost);
  run_.journal.note(line);
  speeds.advise(ChangeDone{stood_still + lost, done.keeps_devices});
  if (done.gives_back) {
    details["seconds"] = seconds(MonotonicClock::now() - done.requested).count();
    run_.journal.log("reclaimed", {{"step", done.step.value}, {"seconds", details["seconds"]}});
  }
  details["ok"] = true;
  details["message"] = line;
  if (done.answer) details.update(*done.answer);
  return details;
}

void Stages::report_recovery(const decisions::ReportRecovery& report) const {
  const decisions::LostWorker& loss = report.loss;
  run_.journal.log("recovered", {{"step", loss.step.value},
                                 {"worker", loss.worker.value},
                                 {"cause", loss.cause},
                                 {"seconds_to_next_step", report.seconds},
                                 {"committed_steps_redone", loss.steps_redone},
                                 {"devices", counted_devices(devices_of(devices_in_force(run_.job)))}});
  run_.journal.note(fmt::format(
      "step {}: recovered from the loss of worker {} in {:.2f} s; {}", loss.step, loss.worker, report.seconds,
      loss.steps_redone == 0 ? "no committed step was redone"
                             : fmt::format("{} redone, the same way", counted(loss.steps_redone, "step"))));
}

}  // namespace estrain::launch

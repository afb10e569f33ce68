// A worker is lost, hangs, or all workers wait for each other: decides whether the job continues, and how.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/clock.h"
#include "core/run/decisions/turn.h"

namespace estrain::decisions {
namespace {

constexpr int64_t kMostReplacementsLost = 2;  // in a row, before the job continues without the device
constexpr Nanoseconds kBeforeNextStart = 1s;

bool remove(std::vector<Member>& list, WorkerId id) {
  return std::erase_if(list, [id](const Member& member) { return member.id == id; }) > 0;
}

LostWorker describe_loss(const Turn& turn, const WorkerLost& event, const Member& member) {
  return {.worker = member.id,
          .device = member.device,
          .ests = member.ests,
          .cause = event.verdict.cause,
          .what = event.what,
          .step = turn.now.trained,
          .last_beat = event.last_beat,
          .noticed = turn.now.time};
}

// Gives up a device of a resize if no step has been seen on the device: the waiting client must not hear that the job
// has the device. A change of the batch is carried out all the same. Devices that were given back are free all the
// same.
void refuse_resize(Turn& turn, const LostWorker& loss, const Assignment& rest) {
  RunState& state = turn.state;
  if (!state.resize) return;
  if (state.resize->changes_batch) return;
  if (state.resize->gives_back) {
    state.resize->after = format_devices(rest);
    return;
  }
  const ResizeUnderWay resize = *std::exchange(state.resize, std::nullopt);
  const Error error = Error::make(Fault::peer, "resize to {}: {} was lost before its first step: {}", resize.after,
                                  loss.device.text(), loss.what)
                          .advise("the job continues without it: see `estrain status`");
  turn.log("resize_failed", {{"step", turn.now.trained.value}, {"devices", resize.after}, {"error", error.message()}});
  if (resize.client) turn.act(Refuse{*resize.client, error}, error.message());
}

// Takes the lost worker's device, which is suspect, out of the planned change.
void do_without(Turn& turn, const LostWorker& loss) {
  RunState& state = turn.state;
  PendingChange& pending = *state.pending;
  const auto device = std::ranges::find(pending.devices, loss.device, &Share::device);
  if (device != pending.devices.end()) pending.devices.erase(device);
  for (Share& rest : pending.devices) rest.ests.reset();
  pending.workers.clear();
  give_up_device(turn, loss, pending.devices);
  refuse_resize(turn, loss, pending.devices);
}

// Aborts the stage: the other workers leave the step under way and wait, warm, until the lost worker is replaced.
void recover(Turn& turn, const LostWorker& loss, const FaultVerdict& verdict, bool was_added) {
  RunState& state = turn.state;
  state.less_memory |= verdict.less_memory;
  if (!state.pending) {
    state.pending.emplace();
    state.pending->devices = devices_in_force(state);
  }
  state.pending->keeps_devices = false;
  remove(state.workers, loss.worker);
  const bool suspect = verdict.other_device || (was_added && state.faults_at_step > kMostReplacementsLost);
  if (suspect && can_do_without(state, placement::devices_of(state.pending->devices), loss.device))
    do_without(turn, loss);
  if (!state.recovery) state.recovery = loss;
  stand_still(turn, "a worker is lost");
  if (misses_workers(state)) {
    const Nanoseconds wait = back_off(verdict.backoff_seconds, state.faults_at_step);
    state.start_missing_at = turn.now.time + wait;
    if (wait == 0ns) start_missing_workers(turn);
  }
  change_if_ready(turn);
}

void note_survived(RunState& state, const LostWorker& loss, const FaultVerdict& verdict) {
  state.faults.push_back(
      {.worker = loss.worker, .step = loss.step, .cause = loss.cause, .fault_class = verdict.fault_class});
}

void end_by(Turn& turn, const WorkerLost& event, const LostWorker& loss) {
  RunState& state = turn.state;
  if (!state.failure) state.failed = event.worker;
  const bool again = event.verdict.retry && state.faults_at_step > 1;
  fail(turn,
       again ? event.error.within(fmt::format("fault {} at step {}", state.faults_at_step, loss.step)) : event.error);
}

}  // namespace

bool can_do_without(const RunState& state, Devices devices, const Device& device) {
  if (const auto at = std::ranges::find(devices, device); at != devices.end()) devices.erase(at);
  if (devices.empty()) return false;
  return device.host != state.host || std::ranges::find(devices, state.host, &Device::host) != devices.end();
}

void give_up_device(Turn& turn, const LostWorker& loss, const Assignment& rest) {
  RunState& state = turn.state;
  for (Devices* held : {&state.held, state.pending ? &state.pending->held : nullptr}) {
    if (held == nullptr) continue;
    if (const auto at = std::ranges::find(*held, loss.device); at != held->end()) held->erase(at);
  }
  turn.log("device_lost", {{"step", loss.step.value}, {"device", loss.device.text()}, {"cause", loss.cause}});
  turn.say(fmt::format("{} is not used any more; the job continues with {}", loss.device.text(), format_devices(rest)));
}

void move_to_leaving(RunState& state, std::vector<Member>& list, WorkerId id) {
  const auto at = std::ranges::find(list, id, &Member::id);
  if (at == list.end()) return;
  Member member = std::move(*at);
  list.erase(at);
  state.leaving.push_back(std::move(member));
}

void fail(Turn& turn, Error error) {
  if (!turn.state.failure) turn.state.failure = std::move(error);
  turn.state.phase = RunPhase::over;
}

void on_ended(Turn& turn, const WorkerEnded& event) { remove(turn.state.leaving, event.worker); }

void on_lost(Turn& turn, const WorkerLost& event) {
  RunState& state = turn.state;
  if (is_leaving(state, event.worker)) {
    if (!event.lingers) remove(state.leaving, event.worker);
    return;
  }
  const Member* known = find_member(state, event.worker);
  if (known == nullptr || state.phase == RunPhase::over) return;
  const Member member = *known;
  const LostWorker loss = describe_loss(turn, event, member);
  const bool of_stage = std::ranges::find(state.workers, member.id, &Member::id) != state.workers.end();
  if (event.lingers) state.leaving.push_back(member);
  if (state.pending) remove(state.pending->added, member.id);
  if (!of_stage && state.phase == RunPhase::warming && state.pending->asked_for)
    return give_up_change(turn, event.error.within("log: " + event.log));

  // An aborted stage may lose more workers by the same cause: these losses are not counted as faults of their own.
  const bool counted = state.phase == RunPhase::recovering && of_stage;
  if (counted ? !event.verdict.retry : !count_fault(turn, event.verdict)) return end_by(turn, event, loss);
  note_survived(state, loss, event.verdict);
  const std::string its_part = member.ests.size() == 0
                                   ? "not training yet"
                                   : fmt::format("ESTs {} to {}", member.ests.begin, member.ests.end.value - 1);
  turn.say(fmt::format("step {}: lost worker {} ({}), {}: {}", loss.step, loss.worker, its_part, loss.what,
                       event.verdict.description));
  if (state.ending == RunEnding::stopped) return stop_at_once(turn);  // the committed step is saved
  if (state.phase == RunPhase::starting) return recover_start(turn, loss, event.verdict);
  recover(turn, loss, event.verdict, !of_stage);
}

// Tells whether the job may continue.
bool count_fault(Turn& turn, const FaultVerdict& verdict) {
  RunState& state = turn.state;
  state.faults_at_step = state.fault_step == turn.now.trained ? state.faults_at_step + 1 : 1;
  state.fault_step = turn.now.trained;
  return verdict.retry && state.faults_at_step <= state.retries;
}

// Gives up workers that are only wished for; starts needed workers again later.
void on_cannot_start(Turn& turn, const CannotStart& event) {
  RunState& state = turn.state;
  for (const WorkerId id : event.workers) {
    if (state.pending) remove(state.pending->added, id);
    for (Member& place : state.workers) {
      if (place.id == id) place.id = kNobody;
    }
  }
  if (state.phase == RunPhase::over) return;
  if (state.phase == RunPhase::warming) return give_up_change(turn, event.error);
  state.start_missing_at = next_start(turn, "a worker", event.verdict, event.error);
}

MonotonicTime next_start(Turn& turn, const std::string& who, const FaultVerdict& verdict, const Error& error) {
  if (!count_fault(turn, verdict)) {
    fail(turn, error.within(who + " cannot be started"));
    return kNoTime;
  }
  turn.say(fmt::format("step {}: {} cannot be started, is tried again: {}", turn.now.trained, who, error.message()));
  const Nanoseconds wait = back_off(verdict.backoff_seconds, turn.state.faults_at_step);
  return turn.now.time + std::max(wait, kBeforeNextStart);
}

void report_recovery(Turn& turn) {
  RunState& state = turn.state;
  if (!state.recovery || state.phase == RunPhase::recovering || turn.now.trained <= state.recovery->step) return;
  const LostWorker loss = *std::exchange(state.recovery, std::nullopt);
  const double lost = seconds(turn.now.time - (loss.last_beat > kNoTime ? loss.last_beat : loss.noticed)).count();
  double lost_by_all = lost;  // of all workers lost together; told once, and so are the steps trained again
  int64_t redone = loss.steps_redone;
  for (SurvivedFault& fault : state.faults) {
    if (fault.seconds_lost) continue;
    fault.seconds_lost = std::exchange(lost_by_all, 0.0);
    fault.steps_redone = std::exchange(redone, 0);
  }
  turn.act(ReportRecovery{loss, lost}, "the first step after the loss is done");
}

void on_hangs(Turn& turn, const WorkerHangs& event) {
  if (turn.state.phase == RunPhase::over || find_member(turn.state, event.worker) == nullptr) return;
  turn.act(EndHungWorker{event.worker, event.how}, event.how);
}

// A worker was stopped while waiting: the only worker still in its loop now. A second stall before the run makes
// progress is no accident.
void on_all_wait(Turn& turn, const AllWait& event) {
  RunState& state = turn.state;
  if (state.phase == RunPhase::over || state.workers.empty()) return;
  if (state.ending == RunEnding::stopped) return stop_at_once(turn);  // the committed step is saved
  const int64_t step = turn.now.trained.value;
  turn.log("stalled", {{"step", step}, {"seconds", event.seconds}});
  if (step <= std::exchange(state.stalled_at, std::max(state.stalled_at, step))) {
    const std::string how =
        fmt::format("waits for the others as they wait for it, for {:.1f} s and not for the first time", event.seconds);
    return turn.act(EndHungWorker{state.workers.front().id, how}, how);
  }
  turn.say(fmt::format("step {}: all workers wait for each other: begun again", step));
  if (!state.pending) {
    state.pending.emplace();
    state.pending->devices = devices_in_force(state);
  }
  stand_still(turn, "all workers wait for each other");
}

void stand_still(Turn& turn, std::string reason) {
  give_up_exchange(turn);  // the abort ends its preparation, and the next stage may have other workers
  if (turn.state.phase != RunPhase::recovering) turn.state.stood_still = turn.now.time;
  turn.state.phase = RunPhase::recovering;
  turn.act(AbortStage{}, std::move(reason));
}

Nanoseconds back_off(double first_seconds, int64_t faults) {
  const auto doublings = static_cast<int>(std::clamp<int64_t>(faults - 1, 0, 30));
  return nanoseconds(Seconds(std::min(std::ldexp(first_seconds, doublings), kLongestBackOffSeconds)));
}

}  // namespace estrain::decisions

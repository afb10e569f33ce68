// How a run ends: finished, stopped with a checkpoint, or failed with everything committed saved.

#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

#include "core/base/clock.h"
#include "core/launch/launcher.h"

namespace estrain::launch {
namespace {

constexpr int kPatienceWithWorkersMs = 5000;

std::string last_lines(const std::string& text, int lines) {
  size_t from = text.size();
  while (lines-- > 0 && from > 0) {
    from = text.rfind('\n', from - 2 < text.size() ? from - 2 : 0);
    if (from == std::string::npos) return text;
    ++from;
  }
  return text.substr(from);
}

}  // namespace

int Launcher::end() {
  if (memory_ && !first_step_seen_) note_first_step();
  if (memory_) log_stage_speed();
  if (memory_ && ending_ != Ending::none) keep_profiles();
  const Error too_late(Fault::usage, "the job ended first");
  if (pending_) give_up_resize(too_late);
  if (state_.resize && state_.resize->client) control_->reply(*state_.resize->client, error_answer(too_late));
  for (const WaitingRequest& waiting : state_.waiting) control_->reply(waiting.client, error_answer(too_late));
  if (failure_ || stop_at_once_) {
    kill_workers();
    if (memory_) memory_->repair();
  }
  if (memory_) save_last_state();
  if (!failure_) dismiss_workers();
  close_scribe();
  directory_.disown(lock_.get());
  report_stages();
  report_faults();
  if (failure_) fail();
  if (ending_ == Ending::stopped) return report_stop();
  printer_.note(format_progress(progress()));
  if (state_.last_saved_step != trained()) {
    throw Error::make(Fault::io, "the job is done, but its last checkpoint (step {}) could not be written: {}",
                      trained(), last_save_error_)
        .advise(fmt::format(
            "make room and run `estrain train --resume --run {}`: it repeats only what the newest checkpoint lacks",
            directory_.path()));
  }
  directory_.log_event("finished", {{"step", trained()}});
  printer_.note(fmt::format("done: {} steps in {}, state in {}/latest", trained(),
                            format_duration(seconds(monotonic_ns() - state_.started_ns)), directory_.checkpoints()));
  return 0;
}

int Launcher::report_stop() {
  const int64_t step = memory_ ? trained() : from_step_;
  directory_.log_event("stopped", {{"step", step}, {"why", stop_reason_}});
  if (memory_ && state_.last_saved_step != step) {
    const Error error =
        Error::make(Fault::io, "stopped at step {}, but its checkpoint could not be written: {}", step,
                    last_save_error_)
            .advise(
                fmt::format("make room and go on from the checkpoint before it with `estrain train --resume --run {}`",
                            directory_.path()));
    answer_stops(error_answer(error));
    throw Error(error);
  }
  answer_stops({{"ok", true}, {"step", step}, {"checkpoint_step", state_.last_saved_step}});
  printer_.note(
      fmt::format("stopped at step {}; go on with `estrain train --resume --run {}`", step, directory_.path()));
  return exit_code(Fault::interrupted);
}

void Launcher::answer_stops(const Json& answer) {
  for (const ClientId client : stop_clients_) control_->reply(client, answer);
}

void Launcher::fail() {
  Error error = *failure_;
  std::string advice = error.advice();
  if (!failure_details_.is_null()) {
    const std::string log = failure_details_.at("log");
    if (error.fault() == Fault::peer) {
      if (!failure_log_.empty())
        error = Error(error.fault(), error.message() + "\nlast lines of its log:\n" + last_lines(failure_log_, 8))
                    .exiting_with(error.exit_code());
    }
    advice += (advice.empty() ? "" : "\n") + ("log: " + log);
  }
  if (memory_ && state_.last_saved_step != trained()) {
    advice += fmt::format("\nthe state of step {} could not be saved: {}", trained(),
                          last_save_error_.empty() ? "there was nobody to write it" : last_save_error_);
  }
  if (memory_ && state_.last_saved_step >= 0) {
    advice += fmt::format("\nlast good step: {}, saved; go on with `estrain train --resume --run {}`",
                          state_.last_saved_step, directory_.path());
  }
  Json details = failure_details_.is_null() ? Json{{"error", error.message()}} : failure_details_;
  details["last_good_step"] = memory_ ? Json(trained()) : Json();
  directory_.log_event("failed", details);
  answer_stops(error_answer(error));
  throw error.advise(advice);
}

// Has the scribe, or another one if it is lost on the way, write the committed state, and waits for it.
void Launcher::save_last_state() {
  const int64_t step = trained();
  pid_t asked = -1;
  unsaved_step_ = -1;         // there may be room again
  bool brought_back = false;  // once: a scribe that ends again and again saves nothing
  const auto have_scribe = [&] {
    return state_.scribe.socket || (!std::exchange(brought_back, true) && bring_scribe_back());
  };
  while (state_.last_saved_step != step && unsaved_step_ != step && have_scribe()) {
    if (asked != state_.scribe.process.pid() && memory_->try_hold(step)) {
      asked = state_.scribe.process.pid();
      state_.scribe.socket.send({{"do", "checkpoint"}, {"step", step}});
    }
    wait_for_scribe();
  }
}

void Launcher::close_scribe() {
  closing_scribe_ = true;
  pid_t told = -1;
  while (state_.scribe.socket || (start_scribe_at_ns_ != 0 && bring_scribe_back())) {
    if (told != state_.scribe.process.pid()) {
      told = state_.scribe.process.pid();
      state_.scribe.socket.send({{"do", "finish"}});
    }
    wait_for_scribe();
  }
}

void Launcher::wait_for_scribe() {
  on_scribe_message(kTickMilliseconds);
  supervise_scribe(monotonic_ns());
  show_life(monotonic_ns());
}

// Where one could not be started. Nobody needs the workers any more; what they hold may be what it lacks. False: it
// cannot be started now either.
bool Launcher::bring_scribe_back() {
  kill_workers();
  do {
    while (monotonic_ns() < start_scribe_at_ns_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kTickMilliseconds));
      show_life(monotonic_ns());
    }
    start_scribe_again();
  } while (!state_.scribe.socket && start_scribe_at_ns_ != 0);
  return static_cast<bool>(state_.scribe.socket);
}

// The time line of devices and speed, where there is more to it than one stage. All of it is in events.jsonl.
void Launcher::report_stages() {
  if (elastic_.stages().size() < 2) return;
  printer_.note("devices over time:");
  for (const StageSummary& stage : elastic_.stages()) {
    const std::string speed =
        stage.step_seconds > 0 ? fmt::format("{:.3g} ms a step", 1000 * stage.step_seconds) : "not measured";
    printer_.note(
        fmt::format("  steps {:>8} to {:<8}  {:<16}  {}", stage.from_step + 1, stage.to_step, speed, stage.devices));
  }
}

// What the job went through, at its end.
void Launcher::report_faults() {
  if (state_.faults.empty()) return;
  std::map<std::string, int> by_cause;
  double lost = 0;
  int64_t redone = 0;
  for (const Json& fault : state_.faults) {
    ++by_cause[fmt::format("{} ({})", fault.value("cause", ""), fault.value("class", ""))];
    lost += fault.value("seconds_lost", 0.0);
    redone += fault.value("steps_redone", INT64_C(0));
  }
  std::string causes;
  for (const auto& [cause, times] : by_cause)
    causes += fmt::format("{}{} x {}", causes.empty() ? "" : ", ", times, cause);
  printer_.note(fmt::format("{} faults survived: {}; {:.1f} s lost, {}", state_.faults.size(), causes, lost,
                            redone == 0 ? "no committed step redone" : fmt::format("{} steps redone", redone)));
  directory_.log_event("faults", {{"step", memory_ ? trained() : from_step_},
                                  {"faults", state_.faults},
                                  {"seconds_lost", lost},
                                  {"committed_steps_redone", redone}});
}

void Launcher::dismiss_workers() {
  for (WorkerProcess* worker : all_workers()) worker->socket.send({{"do", "leave"}});
  for (WorkerProcess* worker : all_workers()) {
    if (!worker->process.running()) continue;
    if (!worker->process.wait_for(kPatienceWithWorkersMs)) {
      worker->process.signal(SIGKILL);
      worker->process.wait_for(kPatienceWithWorkersMs);
    }
  }
}

// And waits for its end, so that it touches the shared memory no more; one that the kernel holds may end later.
void Launcher::kill_worker(WorkerProcess& worker) {
  worker.process.signal(SIGKILL);
  if (!worker.process.wait_for(kPatienceWithWorkersMs)) state_.leaving.push_back(std::move(worker));
}

void Launcher::kill_workers() {
  if (memory_) memory_->abort_stage();
  for (WorkerProcess* worker : all_workers()) {
    if (worker->process.running()) worker->process.signal(SIGKILL);
  }
  for (WorkerProcess* worker : all_workers()) {
    if (worker->process.running()) worker->process.wait_for(kPatienceWithWorkersMs);
    worker->socket.close();
  }
}

}  // namespace estrain::launch

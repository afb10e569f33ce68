// How a run ends: finished, stopped with a checkpoint, or failed with everything committed saved.

#include <chrono>
#include <thread>

#include "core/base/clock.h"
#include "core/launch/launcher.h"

namespace estrain::launch {

using conduct::Ending;

namespace {

std::string last_lines(const std::string& text, int lines) {
  size_t from = text.size();
  while (lines-- > 0 && from > 0) {
    from = text.rfind('\n', from - 2 < text.size() ? from - 2 : 0);
    if (from == std::string::npos) return text;
    ++from;
  }
  return text.substr(from);
}

Json told(const conduct::SurvivedFault& fault) {
  const bool scribe = fault.worker == conduct::kNobody;
  Json json = {{"worker", scribe ? Json("scribe") : Json(fault.worker.value)},
               {"step", fault.step.value},
               {"cause", fault.cause},
               {"class", fault.fault_class}};
  if (!fault.seconds_lost) return json;
  json["seconds_lost"] = *fault.seconds_lost;
  if (!scribe) json["steps_redone"] = fault.steps_redone;
  return json;
}

}  // namespace

int Launcher::end() {
  if (memory_ && !first_step_seen_) note_first_step();
  if (memory_) log_stage_speed(job_.stage);
  if (memory_ && job_.ending != Ending::none) keep_profiles();
  decide(conduct::EndBegan{});
  decide(conduct::Tick{});
  while (job_.closing != conduct::Closing::closed) {
    wait_for_scribe();
    decide(conduct::Tick{});
  }
  end_courier();
  directory_.disown(lock_.get());
  report_stages();
  report_faults();
  if (job_.failure) fail();
  if (job_.ending == Ending::stopped) return report_stop();
  printer_.note(format_progress(progress()));
  if (job_.scribe.last_saved_step != trained()) {
    throw Error::make(Fault::io, "the job is done, but its last checkpoint (step {}) could not be written: {}",
                      trained(), job_.scribe.last_save_error)
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
  const int64_t step = trained();
  directory_.log_event("stopped", {{"step", step}, {"why", job_.stop_reason}});
  if (memory_ && job_.scribe.last_saved_step != step) {
    const Error error =
        Error::make(Fault::io, "stopped at step {}, but its checkpoint could not be written: {}", step,
                    job_.scribe.last_save_error)
            .advise(
                fmt::format("make room and go on from the checkpoint before it with `estrain train --resume --run {}`",
                            directory_.path()));
    answer_stops(error_answer(error));
    throw Error(error);
  }
  answer_stops({{"ok", true}, {"step", step}, {"checkpoint_step", job_.scribe.last_saved_step}});
  printer_.note(
      fmt::format("stopped at step {}; go on with `estrain train --resume --run {}`", step, directory_.path()));
  return exit_code(Fault::interrupted);
}

void Launcher::answer_stops(const Json& answer) {
  for (const ClientId client : job_.stop_clients) control_->reply(client, answer);
}

void Launcher::fail() {
  Error error = *job_.failure;
  std::string advice = error.advice();
  const auto loss = losses_.find(job_.failed);
  if (loss != losses_.end()) {
    if (error.fault() == Fault::peer && !loss->second.last_words.empty())
      error =
          Error(error.fault(), error.message() + "\nlast lines of its log:\n" + last_lines(loss->second.last_words, 8))
              .exiting_with(error.exit_code());
    advice += (advice.empty() ? "" : "\n") + ("log: " + loss->second.details.at("log").get<std::string>());
  }
  if (memory_ && job_.scribe.last_saved_step != trained()) {
    advice +=
        fmt::format("\nthe state of step {} could not be saved: {}", trained(),
                    job_.scribe.last_save_error.empty() ? "there was nobody to write it" : job_.scribe.last_save_error);
  }
  if (memory_ && job_.scribe.last_saved_step >= 0) {
    advice += fmt::format("\nlast good step: {}, saved; go on with `estrain train --resume --run {}`",
                          job_.scribe.last_saved_step, directory_.path());
  }
  Json details = loss == losses_.end() ? Json{{"error", error.message()}} : loss->second.details;
  details["last_good_step"] = memory_ ? Json(trained()) : Json();
  directory_.log_event("failed", details);
  answer_stops(error_answer(error));
  throw error.advise(advice);
}

void Launcher::wait_for_scribe() {
  if (state_.scribe.socket) {
    on_scribe_message(kTickMilliseconds);
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(kTickMilliseconds));
  }
  supervise_scribe(monotonic_ns());
  show_life(monotonic_ns());
}

// The time line of devices and speed, where there is more to it than one stage. All of it is in events.jsonl.
void Launcher::report_stages() {
  if (adviser_.past().stages().size() < 2) return;
  printer_.note("devices over time:");
  for (const StageSummary& stage : adviser_.past().stages()) {
    const std::string speed =
        stage.step_seconds > 0 ? fmt::format("{:.3g} ms a step", 1000 * stage.step_seconds) : "not measured";
    printer_.note(
        fmt::format("  steps {:>8} to {:<8}  {:<16}  {}", stage.from_step + 1, stage.to_step, speed, stage.devices));
  }
}

// What the job went through, at its end.
void Launcher::report_faults() {
  if (job_.faults.empty()) return;
  std::map<std::string, int> by_cause;
  double lost = 0;
  int64_t redone = 0;
  Json faults = Json::array();
  for (const conduct::SurvivedFault& fault : job_.faults) {
    ++by_cause[fmt::format("{} ({})", fault.cause, fault.fault_class)];
    lost += fault.seconds_lost.value_or(0);
    redone += fault.steps_redone;
    faults.push_back(told(fault));
  }
  std::string causes;
  for (const auto& [cause, times] : by_cause)
    causes += fmt::format("{}{} x {}", causes.empty() ? "" : ", ", times, cause);
  printer_.note(fmt::format("{} faults survived: {}; {:.1f} s lost, {}", job_.faults.size(), causes, lost,
                            redone == 0 ? "no committed step redone" : fmt::format("{} steps redone", redone)));
  directory_.log_event(
      "faults", {{"step", trained()}, {"faults", faults}, {"seconds_lost", lost}, {"committed_steps_redone", redone}});
}

}  // namespace estrain::launch

#include "core/run/launch/launcher/ending.h"

#include <map>

#include "core/base/clock.h"
#include "core/base/counted.h"
#include "core/run/launch/launcher/parts/go_back.h"
#include "core/state/run_directory/batch_changes.h"

namespace estrain::launch {

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

Json told(const decisions::SurvivedFault& fault) {
  const bool scribe = fault.worker == decisions::kNobody;
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

int Ending::end(const std::function<void()>& close_files) {
  try {
    const int code = close_and_report(close_files);
    const bool stopped = run_.job.ending == decisions::RunEnding::stopped;
    note_verdict({.exit_code = code,
                  .outcome = stopped ? "stopped" : "finished",
                  .cause = stopped ? run_.job.stop_reason : "all steps are trained",
                  .advice = stopped ? resume_advice() : ""});
    return code;
  } catch (const GoBack&) {
    throw;
  } catch (const Error& error) {
    note_verdict(run_directory::RunVerdict::failed(error));
    throw;
  }
}

// The lock is held still, unless another launcher has taken the run.
void Ending::note_verdict(run_directory::RunVerdict verdict) const {
  const auto owner = run_.journal.directory.owner();
  if (owner && !owner->is_this_process()) return;
  verdict.step = run_.trained();
  if (run_.job.scribe.last_saved_step >= 0) verdict.saved_step = run_.job.scribe.last_saved_step;
  run_directory::write_verdict(run_.journal.directory.path(), verdict);
}

std::string Ending::resume_advice() const {
  return fmt::format("resume with `estrain train --resume --run {}`", run_.journal.directory.path());
}

int Ending::close_and_report(const std::function<void()>& close_files) {
  if (run_.memory) parts_.speeds.note_first_step();
  if (run_.memory) parts_.speeds.log_stage(run_.job.stage);
  if (run_.memory && run_.job.ending != decisions::RunEnding::none) parts_.speeds.keep_profiles();
  close_files();
  // The courier ends last: commands on other hosts still wait for answers.
  int code = 0;
  bool goes_on = false;
  std::exception_ptr failure;
  try {
    code = report();
  } catch (const GoBack&) {
    goes_on = true;
    failure = std::current_exception();
  } catch (...) {
    failure = std::current_exception();
  }
  parts_.hosts.end(goes_on);
  if (failure) std::rethrow_exception(failure);
  return code;
}

int Ending::report() {
  if (!parts_.hosts.left_to_others()) run_.journal.directory.disown(parts_.processes.shared.lock);
  report_stages();
  report_faults();
  parts_.audits.report_end();
  if (run_.job.failure) fail();
  return run_.job.ending == decisions::RunEnding::stopped ? report_stop() : report_finish();
}

int Ending::report_finish() {
  run_.journal.note(format_progress(parts_.report.progress()));
  if (run_.job.scribe.last_saved_step != run_.trained()) {
    throw Error::make(Fault::io, "the job is done, but its last checkpoint (step {}) could not be written: {}",
                      run_.trained(), run_.job.scribe.last_save_error)
        .advise(fmt::format(
            "make room and run `estrain train --resume --run {}`: it repeats only what the newest checkpoint lacks",
            run_.journal.directory.path()));
  }
  const bool early = run_.trained() < run_.memory.manifest().total_steps;
  run_.journal.log("finished", {{"step", run_.trained()}, {"early", early}});
  if (early)
    run_.journal.note(
        fmt::format("ended early: early_stop.patience = {} is used up; with more of it a resume trains on, such as "
                    "--resume --set early_stop.patience={}",
                    run_.spec.early_stop.patience, 2 * run_.spec.early_stop.patience));
  run_.journal.note(fmt::format("done: {} in {}, state in {}/latest", counted(run_.trained(), "step"),
                                format_duration(seconds(MonotonicClock::now() - run_.times.started).count()),
                                run_.journal.directory.checkpoints()));
  return 0;
}

int Ending::report_stop() {
  const int64_t step = run_.trained();
  run_.journal.log("stopped", {{"step", step}, {"why", run_.job.stop_reason}});
  // For a stop before the first stage: a resume then trains this launch's spec.
  run_.journal.put_on_record(run_.spec, run_.origin.changes);
  if (run_.memory && run_.job.scribe.last_saved_step != step) {
    const Error error =
        Error::make(Fault::io, "stopped at step {}, but its checkpoint could not be written: {}", step,
                    run_.job.scribe.last_save_error)
            .advise(
                fmt::format("make room and resume from the checkpoint before it with `estrain train --resume --run {}`",
                            run_.journal.directory.path()));
    answer_stops(error_answer(error));
    throw Error(error);
  }
  if (parts_.requests.batch_change()) go_on_changed();
  answer_stops({{"ok", true}, {"step", step}, {"checkpoint_step", run_.job.scribe.last_saved_step}});
  run_.journal.note(fmt::format("stopped at step {}; {}", step, resume_advice()));
  return exit_code(Fault::interrupted);
}

// Records the change behind the stop, and resumes from the checkpoint with a new launch.
void Ending::go_on_changed() {
  const Step step(run_.trained());
  const decisions::ChangeRequest& asked = *parts_.requests.batch_change();
  const batches::BatchChange change = run_directory::changed(run_.spec, step, asked.batch, asked.lr_factor);
  std::string what_holds = run_directory::in_words(change);
  try {
    run_directory::require_trainable(run_.spec, run_.memory.manifest().batches, change, asked.one_sample_error);
    run_directory::record_batch_change(run_.journal.directory, run_.spec, change);
    answer_stops({{"ok", true}, {"step", step.value}, {"batch", change.batch}, {"lr_factor", change.lr_factor}});
  } catch (const Error& refusal) {
    if (refusal.fault() != Fault::infeasible) throw;
    answer_stops(error_answer(refusal));
    what_holds = "the batch as it was";
  }
  StartRequest request = request_to_continue(run_, placement::format_devices(devices_in_force(run_.job)));
  request.own_host = run_.options.own_host;
  const Error words = Error::make(Fault::interrupted, "the job continues from step {} with {}", step, what_holds);
  throw GoBack(words.advise("on record in " + run_.journal.directory.changes()), resume_command(request));
}

void Ending::answer_stops(const Json& answer) {
  for (const ClientId client : run_.job.stop_clients) control_->reply(client, answer);
}

void Ending::fail() {
  Error error = *run_.job.failure;
  std::string advice = error.advice();
  const LossRecord* loss = parts_.losses.of(run_.job.failed);
  if (loss != nullptr) {
    if (error.fault() == Fault::peer && !loss->last_words.empty())
      error = Error(error.fault(), error.message() + "\nlast lines of its log:\n" + last_lines(loss->last_words, 8))
                  .exiting_with(error.exit_code());
    advice += (advice.empty() ? "" : "\n") + ("log: " + loss->details.at("log").get<std::string>());
  }
  const std::string back = parts_.audits.go_back(error.advise(advice));
  advice += back.empty() ? advice_at_failure(error.cause() == "user_code") : "\n" + back;
  Json details = loss == nullptr ? Json{{"error", error.message()}} : loss->details;
  details["last_good_step"] = run_.memory ? Json(run_.trained()) : Json();
  run_.journal.log("failed", details);
  answer_stops(error_answer(error));
  throw error.advise(advice);
}

// Says where the state is after a failure.
std::string Ending::advice_at_failure(bool is_users_code) const {
  std::string advice;
  if (run_.memory && run_.job.scribe.last_saved_step != run_.trained()) {
    advice += fmt::format(
        "\nthe state of step {} could not be saved: {}", run_.trained(),
        run_.job.scribe.last_save_error.empty() ? "no scribe ran to write it" : run_.job.scribe.last_save_error);
  }
  if (run_.memory && run_.job.scribe.last_saved_step >= 0) {
    advice += fmt::format("\nlast good step: {}, saved; resume with `estrain train --resume --run {}{}`",
                          run_.job.scribe.last_saved_step, run_.journal.directory.path(),
                          is_users_code ? " --accept-data" : "");
    if (is_users_code) advice += "; --accept-data takes the corrected code";
  }
  return advice;
}

// Prints the time line of devices and speed if the launch had several stages. events.jsonl has the full time line.
void Ending::report_stages() {
  if (parts_.speeds.adviser().past.stages().size() < 2) return;
  run_.journal.note("devices over time:");
  for (const StageSummary& stage : parts_.speeds.adviser().past.stages()) {
    const std::string speed =
        stage.step_seconds > 0 ? fmt::format("{:.3g} ms a step", 1000 * stage.step_seconds) : "not measured";
    run_.journal.note(
        fmt::format("  steps {:>8} to {:<8}  {:<16}  {}", stage.from_step + 1, stage.to_step, speed, stage.devices));
  }
}

// Reports faults and stages at the end of the job.
void Ending::report_faults() {
  if (run_.job.faults.empty()) return;
  std::map<std::string, int> by_cause;
  double lost = 0;
  int64_t redone = 0;
  Json faults = Json::array();
  for (const decisions::SurvivedFault& fault : run_.job.faults) {
    ++by_cause[fmt::format("{} ({})", fault.cause, fault.fault_class)];
    lost += fault.seconds_lost.value_or(0);
    redone += fault.steps_redone;
    faults.push_back(told(fault));
  }
  std::string causes;
  for (const auto& [cause, times] : by_cause)
    causes += fmt::format("{}{} x {}", causes.empty() ? "" : ", ", times, cause);
  run_.journal.note(fmt::format("{} survived: {}; {:.1f} s lost, {}", counted(run_.job.faults.size(), "fault"), causes,
                                lost, redone == 0 ? "no committed step redone" : counted(redone, "step") + " redone"));
  run_.journal.log(
      "faults",
      {{"step", run_.trained()}, {"faults", faults}, {"seconds_lost", lost}, {"committed_steps_redone", redone}});
}

}  // namespace estrain::launch

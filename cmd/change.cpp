#include <memory>
#include <optional>
#include <string>

#include "cmd/commands.h"
#include "cmd/validators.h"
#include "core/base/clock.h"
#include "core/base/files/files.h"
#include "core/base/json/json_fields.h"
#include "core/base/json/json_text.h"
#include "core/base/visible_text.h"
#include "core/run/launch/control/control_socket.h"
#include "core/run/launch/preflight/operator_probe.h"
#include "core/state/checkpoint/directory.h"
#include "core/state/run_directory/batch_changes.h"

namespace estrain::cmd {
namespace {

struct ChangeArguments {
  std::string run;
  std::optional<int64_t> batch;
  std::optional<double> lr_factor;
  bool json = false;
};

// Tries a mini-batch of this size in a separate process, before any change, and one of a single sample.
comm::ProbeReport try_batch(spec::JobSpec spec, int64_t batch) {
  spec.data.batch = batch;
  spec.elastic.changes.clear();
  comm::ProbeReport report;
  with_context(fmt::format("mini-batches of {} samples", batch),
               [&] { report = launch::probe_batch(spec, placement::Device{}); });
  return report;
}

// Changes a run without a launcher, after the step of the run's newest checkpoint.
Json change_resting(const run_directory::RunDirectory& directory, const ChangeArguments& arguments,
                    const comm::ProbeReport& tried) {
  const UniqueFd lock = directory.lock(0s);
  spec::JobSpec spec = directory.read_spec();
  spec.elastic.changes = run_directory::batch_changes_in(read_file_if_present(directory.changes()).value_or(""));
  const auto newest = checkpoint::CheckpointDirectory(directory.checkpoints()).newest_valid();
  const Step step = newest.file ? newest.file->meta().step : Step(0);
  const batches::BatchChange change = run_directory::changed(spec, step, arguments.batch, arguments.lr_factor);
  run_directory::require_trainable(spec,
                                   {.samples_per_est = tried.samples_per_est,
                                    .batch = spec.data.batch,
                                    .drop_last = spec.data.drop_last,
                                    .changes = spec.elastic.changes},
                                   change, tried.one_sample_error);
  if (!run_directory::is_in_force(spec, change)) run_directory::record_batch_change(directory, spec, change);
  directory.disown(lock.get());
  return {{"ok", true}, {"step", step.value}, {"batch", change.batch}, {"lr_factor", change.lr_factor}};
}

std::string in_words(const Json& answer) {
  const auto step = whole_in(answer, "step"), batch = whole_in(answer, "batch");
  const auto factor = number_in(answer, "lr_factor");
  if (!batch || !factor)
    return fmt::format("stopped at step {} by another command: nothing is changed", step.value_or(0));
  return fmt::format("after step {}: {}", step.value_or(0), run_directory::in_words({0, *batch, *factor}));
}

int change(const ChangeArguments& arguments) {
  if (!arguments.batch && !arguments.lr_factor) throw Error(Fault::usage, "--batch or --lr-factor is required");
  const run_directory::RunDirectory directory(arguments.run);
  if (!directory.has_run()) throw Error::make(Fault::usage, "{}: there is no run", arguments.run);
  const spec::JobSpec spec = directory.read_spec();
  run_directory::require_changeable(spec);
  const comm::ProbeReport tried = arguments.batch ? try_batch(spec, *arguments.batch) : comm::ProbeReport();
  const Json answer =
      launch::launcher_answers(arguments.run) || launch::may_be_reached_elsewhere(arguments.run)
          ? launch::ask_launcher(arguments.run,
                                 decisions::ChangeRequest{arguments.batch, arguments.lr_factor, tried.one_sample_error},
                                 std::nullopt)
          : change_resting(directory, arguments, tried);
  fmt::print("{}\n", arguments.json ? json_text(answer) : visible(in_words(answer)));
  return answer.contains("batch") ? 0 : exit_code(Fault::interrupted);
}

}  // namespace

void add_change(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand(
      "change", "Change the batch size or learning rates of a job whose elastic.batch is \"adaptive\"");
  auto arguments = std::make_shared<ChangeArguments>();
  verb->add_option("RUN", arguments->run, "Run directory; the job may be running or not")->required();
  verb->add_option("--batch", arguments->batch, "Samples per EST and step from the next step on")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}));
  verb->add_option("--lr-factor", arguments->lr_factor,
                   "Factor on the learning rates of the spec's schedule from there on (default: as it is)")
      ->check(CLI::PositiveNumber);
  verb->add_flag("--json", arguments->json, "Print what was done as JSON");
  verb->callback([arguments, &chosen] { chosen = [arguments] { return change(*arguments); }; });
}

}  // namespace estrain::cmd

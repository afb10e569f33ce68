#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>

#include "cmd/commands.h"
#include "cmd/validators.h"
#include "core/base/files/temporary_folder.h"
#include "core/base/json/json_text.h"
#include "core/base/visible_text.h"
#include "core/run/launch/launcher/copied_run.h"

namespace estrain::cmd {
namespace {

struct EvaluateArguments {
  launch::EvaluationRequest request;
  std::string out;
  bool force = false, json = false;
};

checkpoint::OutputAttributes attributes_of(const EvaluateArguments& arguments, const launch::EvaluatedSubject& done) {
  checkpoint::OutputAttributes attributes;
  attributes.whole["step"] = done.step.value;
  attributes.texts["source"] = arguments.request.subject;
  attributes.numbers["loss"] = done.evaluation.loss;
  if (done.evaluation.predictions > 0) attributes.numbers["accuracy"] = done.evaluation.accuracy;
  for (const auto& [name, value] : done.evaluation.metrics) attributes.numbers["metric " + name] = value;
  return attributes;
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json as_json(const EvaluateArguments& arguments, const launch::EvaluatedSubject& done,
             const checkpoint::WrittenOutputs& written) {
  const record::EvaluationRecord& found = done.evaluation;
  Json told = {{"step", done.step.value},
               {"loss", number_or_null(found.loss)},
               {"accuracy", found.predictions > 0 ? number_or_null(found.accuracy) : Json(nullptr)},
               {"predictions", found.predictions},
               {"metrics", Json::object()}};
  for (const auto& [name, value] : found.metrics) told["metrics"][name] = number_or_null(value);
  told["left_out"] = Json::array();
  for (const launch::LeftOutRow& row : done.left_out)
    told["left_out"].push_back({{"sample", row.sample}, {"why", row.why}});
  if (arguments.out.empty()) return told;
  told["path"] = arguments.out;
  told["samples"] = written.rows;
  told["outputs"] = Json::array();
  for (const checkpoint::OutputColumn& column : written.columns)
    told["outputs"].push_back({{"name", column.name}, {"type", column.type}, {"sizes", column.sizes}});
  return told;
}

void print(const EvaluateArguments& arguments, const launch::EvaluatedSubject& done,
           const checkpoint::WrittenOutputs& written) {
  const record::EvaluationRecord& found = done.evaluation;
  std::string text = fmt::format("step {}: ", done.step);
  if (found.predictions > 0) text += fmt::format("test accuracy {:.2f} %, ", 100 * found.accuracy);
  text += fmt::format("test loss {:.4f}", found.loss);
  for (const auto& [name, value] : found.metrics) text += fmt::format(", {} {:.4f}", name, value);
  fmt::print("{}\n", visible(text));
  for (const launch::LeftOutRow& row : done.left_out)
    fmt::print("left out, and the next sample stands in the place of sample {}: {}\n", row.sample, visible(row.why));
  if (arguments.out.empty()) return;
  fmt::print("{}: {} samples in the order of the test set\n", visible(arguments.out), written.rows);
  for (const checkpoint::OutputColumn& column : written.columns) fmt::print("  {}: {}\n", column.name, column.text());
}

int evaluate(const EvaluateArguments& arguments) {
  if (!arguments.out.empty() && !arguments.force)
    require_absent(arguments.out, "choose another name, or replace it with --force");
  const TemporaryFolder scratch("evaluate");
  const std::string folder = scratch.path() + "/run";
  const launch::EvaluatedSubject done = launch::evaluate(arguments.request, folder);
  checkpoint::WrittenOutputs written;
  if (!arguments.out.empty()) {
    written = checkpoint::write_outputs(launch::outputs_folder(folder), arguments.out, attributes_of(arguments, done));
  }
  if (arguments.json) {
    fmt::print("{}\n", json_text(as_json(arguments, done, written)));
  } else {
    print(arguments, done, written);
  }
  return 0;
}

}  // namespace

void add_evaluate(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("evaluate", "Evaluate a run's newest state, or a checkpoint, on the test set");
  auto arguments = std::make_shared<EvaluateArguments>();
  launch::EvaluationRequest& request = arguments->request;
  verb->add_option("SOURCE", request.subject,
                   "Run directory, whose newest valid checkpoint counts and which may be running; or a checkpoint")
      ->required();
  verb->add_option(
          "--write", arguments->out,
          "HDF5 file to write: what the model gives for each sample (output), the target (labels) and the loss "
          "(losses), in the order of the test set, the same on any devices")
      ->check(not_empty());
  verb->add_option("--devices", request.devices, "As for train (default: the spec's)")->check(not_empty());
  verb->add_option("--set", request.overrides,
                   "Override a key of the spec that defines no bits: --set data.test_path=…")
      ->take_all()
      ->expected(1);
  verb->add_flag("--accept-data", request.accept_data, "Accept other data files than the checkpoint's");
  verb->add_flag("--allow-mixed", request.allow_mixed, "Accept devices of different kinds, which give different bits");
  verb->add_flag("--oversubscribe", request.oversubscribe, "Accept several workers on one GPU (for tests)");
  verb->add_flag("--force", arguments->force, "Replace the HDF5 file if there is one");
  verb->add_flag("--json", arguments->json, "Print the result as JSON");
  verb->callback([arguments, &chosen] { chosen = [arguments] { return evaluate(*arguments); }; });
}

}  // namespace estrain::cmd

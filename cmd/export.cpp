#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cmd/commands.h"
#include "core/base/json_text.h"
#include "core/checkpoint/directory.h"
#include "core/checkpoint/export_model.h"

namespace estrain::cmd {
namespace {

using checkpoint::CheckpointDirectory;
using checkpoint::CheckpointFile;
using checkpoint::ModelFormat;

struct ExportArguments {
  std::string source, format = "safetensors", out;
  std::optional<int64_t> step;
  bool force = false, json = false;
};

std::string default_name(const std::string& format) { return format == "hdf5" ? "model.h5" : "model.safetensors"; }

// The checkpoint of that step, or the newest valid one; names newer ones that are damaged.
CheckpointFile checkpoint_of_run(const std::string& run, std::optional<int64_t> step) {
  const CheckpointDirectory folder(run + "/checkpoints");
  if (step) {
    for (const Step there : folder.steps())
      if (there.value == *step) return CheckpointFile::open(folder.path_of(there));
    throw Error::make(Fault::usage, "{}: has no checkpoint of step {}", run, *step)
        .advise(fmt::format("{}/checkpoints has the existing ones", run));
  }
  checkpoint::NewestCheckpoint newest = folder.newest_valid();
  for (const auto& skipped : newest.skipped) fmt::print(stderr, "skipped {}: {}\n", skipped.path, skipped.why);
  if (!newest.file) throw Error::make(Fault::usage, "{}: no usable checkpoint", run);
  return std::move(*newest.file);
}

CheckpointFile source_of(const ExportArguments& arguments) {
  if (std::filesystem::is_directory(arguments.source)) return checkpoint_of_run(arguments.source, arguments.step);
  if (arguments.step) throw Error::make(Fault::usage, "--step needs a run directory, but {} is none", arguments.source);
  return CheckpointFile::open(arguments.source);
}

int export_weights(const ExportArguments& arguments) {
  const std::string out = arguments.out.empty() ? default_name(arguments.format) : arguments.out;
  if (!arguments.force && std::filesystem::exists(std::filesystem::symlink_status(out))) {
    throw Error::make(Fault::usage, "{} exists already", out).advise("choose another name, or replace it with --force");
  }
  const CheckpointFile from = source_of(arguments);
  checkpoint::export_model(from, out, arguments.format == "hdf5" ? ModelFormat::hdf5 : ModelFormat::safetensors);
  if (arguments.json) {
    fmt::print("{}\n", json_text({{"path", out}, {"format", arguments.format}, {"step", from.meta().step.value}}));
  } else {
    fmt::print("{}: the weights after step {}\n", out, from.meta().step);
  }
  return 0;
}

}  // namespace

void add_export(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("export", "Write a run's weights to a file for other programs");
  auto arguments = std::make_shared<ExportArguments>();
  verb->add_option("SOURCE", arguments->source, "Run directory or checkpoint")->required();
  verb->add_option("OUT", arguments->out, "File to write (default: model.safetensors or model.h5, here)");
  verb->add_option("--format", arguments->format, "safetensors, or hdf5 as model.init takes it")
      ->check(CLI::IsMember({"safetensors", "hdf5"}))
      ->capture_default_str();
  verb->add_option("--step", arguments->step, "The checkpoint of this step (default: the newest)");
  verb->add_flag("--force", arguments->force, "Replace OUT if it exists");
  verb->add_flag("--json", arguments->json, "Print what was written as JSON");
  verb->callback([arguments, &chosen] { chosen = [arguments] { return export_weights(*arguments); }; });
}

}  // namespace estrain::cmd

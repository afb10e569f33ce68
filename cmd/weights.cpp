#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cmd/commands.h"
#include "cmd/users_python.h"
#include "cmd/validators.h"
#include "core/base/error.h"
#include "core/base/files/run_files.h"
#include "core/base/json/json_text.h"
#include "core/base/process/python.h"
#include "core/base/visible_text.h"
#include "core/data/files/file_bytes.h"
#include "core/formats/program/write_program.h"
#include "core/job/spec/parsing/parse.h"
#include "core/state/checkpoint/checkpoint_file.h"
#include "core/state/checkpoint/directory.h"
#include "core/state/checkpoint/models/export_model.h"
#include "core/state/checkpoint/models/safetensors.h"
#include "core/state/checkpoint/models/weights_file.h"

namespace estrain::cmd {
namespace {

using checkpoint::CheckpointDirectory;
using checkpoint::CheckpointFile;
using checkpoint::DType;
using checkpoint::ModelFormat;
using checkpoint::StateTensor;
using program::ScalarType;
using program::StoredTensor;

// `estrain weights --format pt2`: a run's weights in the file of a program of the model: the program for evaluations
// (model.eval_file), or the trained program (model.file) if the job has no evaluation program.
struct ProgramWeights {
  std::string program;  // the program's file; empty: the job's own
  checkpoint::Weights weights = checkpoint::Weights::trained;
};

struct WrittenProgram {
  std::string program;  // the program's file
  bool trains = false;  // the job's own, exported in train() mode
};

// The type of a program's tensor in a checkpoint.
DType dtype_of(ScalarType type) {
  switch (type) {
    case ScalarType::f32:
      return DType::f32;
    case ScalarType::f64:
      return DType::f64;
    case ScalarType::i64:
      return DType::i64;
    case ScalarType::i32:
      return DType::i32;
    case ScalarType::u8:
    case ScalarType::boolean:
      return DType::u8;
    default:
      break;
  }
  throw Error(Fault::bug, "a type that no checkpoint holds");
}

WrittenProgram program_of_job(const checkpoint::CheckpointFile& from) {
  const spec::ModelSection model = spec::parse_text(from.meta().spec, from.path()).model;
  if (model.name == "program" && !model.eval_file.empty()) return {model.eval_file};
  if (model.name == "program") return {model.file, true};
  throw Error::make(Fault::usage, "{}: the job trains {}, no exported program", from.path(), model.name)
      .advise("--format pt2 is for model.name = \"program\"; safetensors and hdf5 are for every model");
}

Error another_model(const StoredTensor& tensor, const std::string& program, const std::string& checkpoint) {
  return Error::make(Fault::mismatch, "{}: its {} is not that of {}", program, tensor.name, checkpoint)
      .advise("give the program that the run trained, or its evaluation program, with --program");
}

// Writes `out`: the program with the weights of a checkpoint. Throws Fault::usage if the job trains no program,
// Fault::mismatch if the program belongs to another model, Fault::corrupt, Fault::io.
WrittenProgram write_program(const checkpoint::CheckpointFile& from, const ProgramWeights& what,
                             const std::string& out) {
  WrittenProgram written = what.program.empty() ? program_of_job(from) : WrittenProgram{what.program};
  const std::string& path = written.program;
  const data::FileBytes file = data::FileBytes::map(path);
  const checkpoint::ModelReader weights(from, what.weights);
  const auto fill = [&](const StoredTensor& tensor, std::byte* to) {
    const StateTensor* found = weights.find(tensor.name);
    if (found == nullptr && !tensor.persistent) return;  // a constant
    if (found == nullptr || found->shape != tensor.sizes || found->dtype != dtype_of(tensor.type))
      throw another_model(tensor, path, from.path());
    weights.read(*found, to);
  };
  checkpoint::write_whole_file(out, program::with_weights(file.bytes, path, fill));
  return written;
}

constexpr const char* convert_code =
#include <estrain/python_convert.inc>
    ;

struct WeightsArguments {
  std::string source, format = "safetensors", out, program, key, python;
  std::optional<int64_t> step;
  bool average = false, force = false, json = false;
};

std::string default_name(const std::string& format) {
  return "model." + (format == "hdf5" ? std::string("h5") : format);
}

// Returns the checkpoint of `step`, or the newest valid checkpoint; names newer damaged checkpoints.
CheckpointFile checkpoint_of_run(const std::string& run, std::optional<int64_t> step) {
  const CheckpointDirectory folder(RunFiles(run).checkpoints());
  if (step) {
    for (const Step there : folder.steps())
      if (there.value == *step) return CheckpointFile::open(folder.path_of(there));
    throw Error::make(Fault::usage, "{}: has no checkpoint of step {}", run, *step)
        .advise(RunFiles(run).checkpoints() + " has the existing ones");
  }
  checkpoint::NewestCheckpoint newest = folder.newest_valid();
  for (const auto& skipped : newest.skipped)
    fmt::print(stderr, "skipped {}: {}\n", visible(skipped.path), visible(skipped.why));
  if (!newest.file) throw Error::make(Fault::usage, "{}: no usable checkpoint", run);
  return std::move(*newest.file);
}

CheckpointFile source_of(const WeightsArguments& arguments) {
  if (std::filesystem::is_directory(arguments.source)) return checkpoint_of_run(arguments.source, arguments.step);
  if (arguments.step) throw Error::make(Fault::usage, "--step needs a run directory, but {} is none", arguments.source);
  if (checkpoint::is_safetensors(arguments.source))
    throw Error::make(Fault::usage, "{}: a safetensors file already", arguments.source)
        .advise("model.init takes it as it is");
  return CheckpointFile::open(arguments.source);
}

// Writes the tensors of a file of torch.save as a safetensors file, by Python.
int convert(const WeightsArguments& arguments, const std::string& out) {
  if (arguments.format != "safetensors" || arguments.step || arguments.average || !arguments.program.empty())
    throw Error::make(Fault::usage, "{}: a file of torch.save becomes a safetensors file, without other options",
                      arguments.source);
  const UsersPython python = find_python(arguments.python, "--python");
  const Json told = ask_python(python, convert_code, arguments.source,
                               {{"file", arguments.source}, {"out", out}, {"key", arguments.key}});
  if (told.contains("error"))
    throw Error::make(Fault::mismatch, "{}: {}", arguments.source, told.at("error").get<std::string>())
        .advise(told.at("advice").get<std::string>());
  if (arguments.json) {
    fmt::print("{}\n", json_text({{"path", out}, {"format", "safetensors"}, {"tensors", told.at("tensors")}}));
  } else {
    fmt::print("{}: {} tensors of {}\n", out, told.at("tensors").get<int64_t>(), arguments.source);
  }
  return 0;
}

int write_weights(const WeightsArguments& arguments) {
  const std::string out = arguments.out.empty() ? default_name(arguments.format) : arguments.out;
  if (!arguments.force) require_absent(out, "choose another name, or replace it with --force");
  if (checkpoint::is_of_torch_save(arguments.source)) return convert(arguments, out);
  if (!arguments.key.empty() || !arguments.python.empty())
    throw Error::make(Fault::usage, "--key and --python are for a file of torch.save, which {} is not",
                      arguments.source);
  if (!arguments.program.empty() && arguments.format != "pt2")
    throw Error::make(Fault::usage, "--program is for --format pt2, not {}", arguments.format);
  const CheckpointFile from = source_of(arguments);
  const auto weights = arguments.average ? checkpoint::Weights::average : checkpoint::Weights::trained;
  WrittenProgram written;
  if (arguments.format == "pt2") {
    written = write_program(from, {arguments.program, weights}, out);
  } else {
    const ModelFormat format = arguments.format == "hdf5" ? ModelFormat::hdf5 : ModelFormat::safetensors;
    checkpoint::export_model(from, out, {format, weights});
  }
  if (arguments.json) {
    Json told = {{"path", out}, {"format", arguments.format}, {"step", from.meta().step.value}};
    if (!written.program.empty()) told["program"] = written.program;
    fmt::print("{}\n", json_text(told));
  } else {
    const std::string in = written.program.empty() ? "" : " in " + written.program;
    fmt::print("{}: the {} after step {}{}\n", out, arguments.average ? "averages of the weights" : "weights",
               from.meta().step, in);
  }
  if (written.trains) {
    fmt::print(stderr,
               "{} was exported in train() mode, so {} drops out and normalizes as in training; for predictions export "
               "the model in eval() mode, too, and name that file with --program\n",
               written.program, out);
  }
  return 0;
}

}  // namespace

void add_weights(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("weights", "Write a run's weights to a file for other programs");
  auto arguments = std::make_shared<WeightsArguments>();
  verb->add_option(
          "SOURCE", arguments->source,
          "Run directory or checkpoint; or a file of torch.save, whose tensors are written as model.init takes "
          "them")
      ->required();
  verb->add_option("OUT", arguments->out, "File to write (default: model.safetensors, model.h5 or model.pt2, here)");
  verb->add_option("--format", arguments->format,
                   "safetensors, hdf5 as model.init takes it, or pt2: the exported program that the job evaluates "
                   "(model.eval_file), or without one that it trains (model.file)")
      ->check(CLI::IsMember({"safetensors", "hdf5", "pt2"}))
      ->capture_default_str();
  verb->add_option("--program", arguments->program,
                   "pt2: put the weights into this program of the model, such as model.file");
  verb->add_option("--step", arguments->step, "The checkpoint of this step (default: the newest)");
  verb->add_flag("--ema", arguments->average, "The averages of the weights (ema.decay) in the place of the weights");
  verb->add_option("--key", arguments->key,
                   "The state_dict of a file of torch.save with several, such as model or ema.model");
  verb->add_option("--python", arguments->python,
                   "The Python with torch for a file of torch.save, such as venv/bin/python (default: ESTRAIN_PYTHON, "
                   "else python3)");
  verb->add_flag("--force", arguments->force, "Replace OUT if it is there");
  verb->add_flag("--json", arguments->json, "Print what was written as JSON");
  verb->callback([arguments, &chosen] { chosen = [arguments] { return write_weights(*arguments); }; });
}

}  // namespace estrain::cmd

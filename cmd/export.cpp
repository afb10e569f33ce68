#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cmd/commands.h"
#include "cmd/users_python.h"
#include "cmd/validators.h"
#include "core/base/error.h"
#include "core/base/json/json_text.h"
#include "core/base/visible_text.h"

namespace estrain::cmd {
namespace {

namespace fs = std::filesystem;

struct ExportArguments {
  std::string function, output, python, precision = "fp32";
  uint64_t seed = 0;
  std::vector<std::string> ragged;
  bool no_eval = false, force = false, traceback = false, json = false;
};

// The files that an export writes.
struct Programs {
  fs::path trained, evaluated;

  // `output`: --output; a folder, or empty, stands for a file with the name of the code's file.
  static Programs at(const std::string& output, const fs::path& code) {
    fs::path trained = output;
    if (output.empty() || fs::is_directory(trained)) trained /= code.stem().string() + ".pt2";
    if (trained.extension() != ".pt2")
      throw Error::make(Fault::usage, "--output {}: the name of a program ends in .pt2", output);
    return {trained, evaluation_program(trained.string())};
  }
};

void require_room(const fs::path& file, bool force) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (::access(folder.c_str(), W_OK | X_OK) != 0) throw system_error(folder.string() + ": cannot write there", errno);
  if (!force) require_absent(file.string(), "choose another name with --output, or replace it with --force");
}

int export_function(const ExportArguments& arguments) {
  const spec::ModelSection model = users_function(arguments.function, arguments.python);
  const Programs programs = Programs::at(arguments.output, model.code_file());
  require_room(programs.trained, arguments.force);
  if (!arguments.no_eval) require_room(programs.evaluated, arguments.force);
  const Json told = ask_users_python(model, arguments.function,
                                     {{"output", programs.trained.string()},
                                      {"evaluation", !arguments.no_eval},
                                      {"precision", arguments.precision},
                                      {"ragged", arguments.ragged},
                                      {"seed", arguments.seed},
                                      {"traceback", arguments.traceback}});
  if (arguments.json) {
    fmt::print("{}\n", json_text(told));
    return 0;
  }
  const std::string trained = visible_in_line(programs.trained.string());
  fmt::print("{}: {} in train() mode\n", trained, visible_in_line(arguments.function));
  if (!arguments.no_eval) fmt::print("{}: in eval() mode\n", visible_in_line(programs.evaluated.string()));
  return 0;
}

}  // namespace

void add_export(CLI::App& app, Action& chosen) {
  CLI::App* verb =
      app.add_subcommand("export", "Export your PyTorch module as the programs that a job trains and evaluates");
  auto arguments = std::make_shared<ExportArguments>();
  verb->add_option("FUNCTION", arguments->function,
                   "Your function, such as net.py:build; it returns the module and an example mini-batch")
      ->required();
  verb->add_option("-o,--output", arguments->output,
                   "File to write, or a folder (default: net.pt2 for net.py, here); net-eval.pt2 lies beside");
  verb->add_option("--python", arguments->python,
                   "The Python with torch, such as venv/bin/python (default: ESTRAIN_PYTHON, else python3)");
  verb->add_option("--precision", arguments->precision, "That of the job: job.precision")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  verb->add_option("--ragged", arguments->ragged,
                   "Arguments of forward, such as tokens,labels, whose second dimension has any length: ragged arrays")
      ->delimiter(',');
  verb->add_option("--seed", arguments->seed, "Seed of torch, random and numpy before the function is called")
      ->capture_default_str();
  verb->add_flag("--no-eval", arguments->no_eval, "Only the program that a job trains");
  verb->add_flag("--force", arguments->force, "Replace files that are there");
  verb->add_flag("--traceback", arguments->traceback, "If the module cannot be exported: show torch's traceback");
  verb->add_flag("--json", arguments->json, "Print what was written as JSON");
  verb->callback([arguments, &chosen] { chosen = [arguments] { return export_function(*arguments); }; });
}

}  // namespace estrain::cmd

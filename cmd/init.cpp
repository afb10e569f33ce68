#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cmd/commands.h"
#include "cmd/starter_job.h"
#include "cmd/validators.h"
#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/files/run_files.h"
#include "core/data/files/file_pattern.h"
#include "core/data/format_table.h"
#include "core/data/job_data.h"
#include "core/job/spec/keys/closest.h"
#include "core/job/spec/parsing/parse.h"
#include "core/job/spec/starter.h"

namespace estrain::cmd {
namespace {

namespace fs = std::filesystem;

struct Example {
  const char* name;
  const char* text;
};

// configs/*.toml, by file name.
constexpr Example kExamples[] = {
#include <estrain/example_specs.inc>
};

struct InitArguments {
  InitWords words;
  std::string output = RunFiles::kSpec;
};

std::vector<std::string> example_names() {
  std::vector<std::string> names;
  for (const Example& example : kExamples) names.emplace_back(example.name);
  return names;
}

Error unknown(const std::string& what) {
  const std::optional<std::string> meant = spec::closest(what, example_names());
  return Error::make(Fault::usage, "{}: neither a data set nor an example", what)
      .advise(
          meant ? fmt::format("did you mean \"{}\"?", *meant)
                : fmt::format("examples are {}; or give a folder or file of data", spec::quoted_list(example_names())));
}

std::optional<std::string> example(const std::string& name) {
  for (const Example& example : kExamples)
    if (name == example.name) return example.text;
  return std::nullopt;
}

std::string spec_for(const InitWords& words) {
  if (const std::optional<std::string> text = example(words.data)) {
    if (words.model.empty()) return *text;
    throw Error::make(Fault::usage, "{} is an example, with a model of its own", words.data)
        .advise("give --model with a data set, or leave it out");
  }
  const std::string file = spec::CodePlace(words.data).file;
  const bool may_be_data = fs::exists(words.data) || data::is_file_pattern(words.data);
  if (!may_be_data && fs::path(file).extension() != ".py") throw unknown(words.data);
  return spec::starter_spec(starter_job(words));
}

// Why a job on this data evaluates nothing, or nothing if it does.
std::optional<std::string> missing_evaluation(const std::string& text, const InitArguments& arguments) {
  if (example(arguments.words.data)) return std::nullopt;
  const spec::DataSection data = spec::parse_text(text, arguments.output).data;
  const bool is_without = data.format == spec::DataFormat::idx && data::file_names(data).size() < 3;
  if (!is_without) return std::nullopt;
  const Finding missing = data::no_evaluation(data);
  return fmt::format("{}: {}", missing.seen, missing.advice);
}

int init(const InitArguments& arguments) {
  const std::string text = spec_for(arguments.words);
  if (arguments.output == "-") {
    fmt::print("{}", text);
    return 0;
  }
  require_absent(arguments.output, "choose another name: --output FILE; \"-\" prints the spec");
  write_file_atomically(arguments.output, text);
  fmt::print("wrote {}; next: estrain check {}, estrain train {}\n", arguments.output, arguments.output,
             arguments.output);
  if (const auto missing = missing_evaluation(text, arguments)) fmt::print("{}\n", *missing);
  return 0;
}

}  // namespace

void add_init(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("init", "Write a commented job spec to start from");
  auto arguments = std::make_shared<InitArguments>();
  verb->add_option("WHAT", arguments->words.data,
                   "A folder or file of data, a pattern of token files, a Dataset in Python such as data.py:train, or "
                   "an example: " +
                       spec::quoted_list(example_names()))
      ->required();
  verb->add_option("--model", arguments->words.model,
                   "A built-in model such as resnet18, a program (net.pt2), or your function that returns a module and "
                   "an example mini-batch (net.py:build). Default: the usual one for the data")
      ->check(not_empty());
  verb->add_option(
          "--python", arguments->words.python,
          "The Python with torch for net.py or data.py, such as venv/bin/python (default: ESTRAIN_PYTHON, else "
          "python3)")
      ->check(not_empty());
  verb->add_option("-o,--output", arguments->output, "File to write, \"-\" for stdout (default: job.toml)");
  verb->callback([arguments, &chosen] { chosen = [arguments] { return init(*arguments); }; });
}

}  // namespace estrain::cmd

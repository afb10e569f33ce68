#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/commands.h"
#include "core/base/error.h"
#include "core/base/files/files.h"
#include "core/base/files/run_files.h"
#include "core/data/format_table.h"
#include "core/job/spec/keys/closest.h"
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
  std::string what;
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

std::string spec_for(const std::string& what) {
  for (const Example& example : kExamples) {
    if (what == example.name) return example.text;
  }
  if (!fs::exists(what)) throw unknown(what);
  const fs::path path = fs::absolute(what).lexically_normal();
  const fs::path last = path.has_filename() ? path : path.parent_path();
  return spec::starter_spec(last.stem().string(), data::recognise(path.string()));
}

int init(const InitArguments& arguments) {
  const std::string text = spec_for(arguments.what);
  if (arguments.output == "-") {
    fmt::print("{}", text);
    return 0;
  }
  if (fs::exists(fs::symlink_status(arguments.output)))
    throw Error::make(Fault::usage, "{} exists already", arguments.output)
        .advise("choose another name: --output FILE; \"-\" prints the spec");
  write_file_atomically(arguments.output, text);
  fmt::print("wrote {}; next: estrain check {}, estrain train {}\n", arguments.output, arguments.output,
             arguments.output);
  return 0;
}

}  // namespace

void add_init(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("init", "Write a commented job spec to start from");
  auto arguments = std::make_shared<InitArguments>();
  verb->add_option("WHAT", arguments->what,
                   "A folder or file of data, or an example: " + spec::quoted_list(example_names()))
      ->required();
  verb->add_option("-o,--output", arguments->output, "File to write, \"-\" for stdout (default: job.toml)");
  verb->callback([arguments, &chosen] { chosen = [arguments] { return init(*arguments); }; });
}

}  // namespace estrain::cmd

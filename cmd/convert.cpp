#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cmd/commands.h"
#include "cmd/users_python.h"
#include "cmd/validators.h"
#include "core/base/error.h"
#include "core/base/json/json_text.h"
#include "core/base/process/python.h"

namespace estrain::cmd {
namespace {

constexpr const char* columns_code =
#include <estrain/python_columns.inc>
    ;

struct ConvertArguments {
  std::vector<std::string> files, columns;
  std::string out, python;
  bool force = false, json = false;
};

int convert_data(const ConvertArguments& arguments) {
  for (const std::string& file : arguments.files)
    if (!std::filesystem::is_regular_file(file)) throw Error::make(Fault::usage, "{}: there is no such file", file);
  if (!arguments.force) require_absent(arguments.out, "choose another name, or replace it with --force");
  const UsersPython python = find_python(arguments.python, "--python");
  const Json told = ask_python(python, columns_code, arguments.out,
                               {{"files", arguments.files}, {"out", arguments.out}, {"columns", arguments.columns}});
  if (told.contains("error"))
    throw Error(Fault::mismatch, told.at("error").get<std::string>()).advise(told.at("advice").get<std::string>());
  if (arguments.json) {
    fmt::print("{}\n",
               json_text({{"path", arguments.out}, {"samples", told.at("samples")}, {"arrays", told.at("arrays")}}));
    return 0;
  }
  fmt::print("{}: {} samples\n", arguments.out, told.at("samples").get<int64_t>());
  for (const Json& array : told.at("arrays"))
    fmt::print("  {}  {} [{}]\n", array.at("name").get<std::string>(), array.at("dtype").get<std::string>(),
               fmt::join(array.at("shape").get<std::vector<int64_t>>(), ", "));
  return 0;
}

}  // namespace

void add_convert(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("convert", "Write Parquet or Arrow files as arrays that a job reads");
  auto arguments = std::make_shared<ConvertArguments>();
  verb->add_option("FILES", arguments->files,
                   "Parquet or Arrow files with the same columns, in the order of the samples")
      ->required()
      ->expected(1, -1);
  verb->add_option("--to", arguments->out,
                   "The HDF5 file to write, for data.format = \"hdf5\": an array for each column. Lists of different "
                   "lengths become NAME with NAME.offsets")
      ->required();
  verb->add_option("--columns", arguments->columns, "The columns to write, such as input_ids,labels (default: all)")
      ->delimiter(',');
  verb->add_option("--python", arguments->python,
                   "The Python with pyarrow and h5py, such as venv/bin/python (default: ESTRAIN_PYTHON, else python3)");
  verb->add_flag("--force", arguments->force, "Replace the file if it is there");
  verb->add_flag("--json", arguments->json, "Print what was written as JSON");
  verb->callback([arguments, &chosen] { chosen = [arguments] { return convert_data(*arguments); }; });
}

}  // namespace estrain::cmd

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cmd/commands.h"
#include "cmd/validators.h"
#include "core/base/counted.h"
#include "core/base/files/files.h"
#include "core/base/visible_text.h"
#include "core/inspect/report/page.h"
#include "core/inspect/report/run_records.h"

namespace estrain::cmd {
namespace {

struct ReportArguments {
  std::vector<std::string> runs;
  std::string html;
};

// "a-b.html" for runs/a and runs/b, in the folder that the command is called in. Refuses a file that is no report.
std::string default_file(const std::vector<std::string>& runs) {
  std::string name;
  for (const std::string& run : runs) {
    const std::filesystem::path path = std::filesystem::absolute(run).lexically_normal();
    name += (name.empty() ? "" : "-") + (path.has_filename() ? path : path.parent_path()).filename().string();
  }
  name += ".html";
  const std::optional<std::string> before = read_file_if_present(name);
  if (before && before->find(report::kTitleEnd) == std::string::npos)
    throw Error::make(Fault::usage, "{}: a file that is no report has the name of the report", name)
        .advise("name another file: --html FILE");
  return name;
}

int write_report(const ReportArguments& arguments) {
  std::vector<report::RunRecords> runs;
  for (const std::string& run : arguments.runs) runs.push_back(report::read_run(run));
  std::vector<report::RunDifference> differences;
  for (size_t i = 1; i < runs.size(); ++i) differences.push_back(report::difference_of(runs[0].path, runs[i].path));
  const std::string page = report::page(runs, differences);
  const std::string html = arguments.html.empty() ? default_file(arguments.runs) : arguments.html;
  write_file_atomically(html, page);
  for (const report::RunRecords& run : runs)
    for (const std::string& words : run.damage) fmt::print(stderr, "warning: {}\n", visible(words));
  fmt::print("{}: {} bytes, {}\n", html, page.size(), estrain::counted(runs.size(), "run"));
  return 0;
}

}  // namespace

void add_report(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("report", "Write a page for a browser about one or more runs");
  auto arguments = std::make_shared<ReportArguments>();
  verb->add_option("RUN", arguments->runs, "Run directories; the first is compared with the others, bit for bit")
      ->required();
  verb->add_option("--html", arguments->html,
                   "File to write; it is self-contained (default: here, named after the runs: a-b.html)")
      ->check(not_empty());
  verb->callback([arguments, &chosen] { chosen = [arguments] { return write_report(*arguments); }; });
}

}  // namespace estrain::cmd

#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "cmd/commands.h"
#include "cmd/validators.h"
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

int write_report(const ReportArguments& arguments) {
  std::vector<report::RunRecords> runs;
  for (const std::string& run : arguments.runs) runs.push_back(report::read_run(run));
  std::vector<report::RunDifference> differences;
  for (size_t i = 1; i < runs.size(); ++i) differences.push_back(report::difference_of(runs[0].path, runs[i].path));
  const std::string page = report::page(runs, differences);
  write_file_atomically(arguments.html, page);
  for (const report::RunRecords& run : runs)
    for (const std::string& words : run.damage) fmt::print(stderr, "warning: {}\n", visible(words));
  fmt::print("{}: {} bytes, {} run(s)\n", arguments.html, page.size(), runs.size());
  return 0;
}

}  // namespace

void add_report(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("report", "Write a page for a browser about one or more runs");
  auto arguments = std::make_shared<ReportArguments>();
  verb->add_option("RUN", arguments->runs, "Run directories; the first is compared with the others, bit for bit")
      ->required();
  verb->add_option("--html", arguments->html, "File to write; it is self-contained")->required()->check(not_empty());
  verb->callback([arguments, &chosen] { chosen = [arguments] { return write_report(*arguments); }; });
}

}  // namespace estrain::cmd

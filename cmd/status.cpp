#include <memory>
#include <string>
#include <vector>

#include "cmd/commands.h"
#include "cmd/validators.h"
#include "core/base/json/json_text.h"
#include "core/base/visible_text.h"
#include "core/inspect/watch/watch.h"
#include "core/run/launch/control/control_socket.h"
#include "core/run/launch/control/run_status.h"

namespace estrain::cmd {
namespace {

struct StatusArguments {
  std::string run;
  bool json = false, watch = false;
  double every = 1;
};

struct ToldRun {
  launch::RunStatus status;
  Json json;
};

// A run without an available status does not hide the other runs.
ToldRun told_of(const std::string& run) {
  try {
    const launch::RunStatus status = launch::run_status(run);
    return {status, launch::status_as_json(status)};
  } catch (const Error& error) {
    launch::RunStatus status;
    status.run = run;
    status.state = "not told";
    Json answer = launch::error_answer(error);
    answer.update({{"run", status.run}, {"state", status.state}});
    return {status, answer};
  }
}

int status_of_all(bool as_json) {
  std::vector<launch::RunStatus> all;
  std::vector<Json> jsons;
  for (const std::string& run : launch::find_runs("runs")) {
    ToldRun told = told_of(run);
    all.push_back(std::move(told.status));
    jsons.push_back(std::move(told.json));
  }
  if (as_json) {
    fmt::print("{}\n", json_text(jsons));
  } else if (all.empty()) {
    fmt::print("no runs in ./runs; give a run directory\n");
  } else {
    fmt::print("{}", visible(launch::format_status_table(all)));
  }
  return 0;
}

int watch(const StatusArguments& arguments) {
  if (arguments.run.empty()) throw Error(Fault::usage, "--watch needs the run directory to watch");
  watch::watch_run(arguments.run, arguments.every);
  return 0;
}

int status(const StatusArguments& arguments) {
  if (arguments.watch) return watch(arguments);
  if (arguments.run.empty()) return status_of_all(arguments.json);
  const launch::RunStatus one = launch::run_status(arguments.run);
  fmt::print("{}",
             arguments.json ? json_text(launch::status_as_json(one)) + "\n" : visible(launch::format_status(one)));
  return 0;
}

}  // namespace

void add_status(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("status", "Show a run's devices, step, speed and remaining time");
  auto arguments = std::make_shared<StatusArguments>();
  verb->add_option("RUN", arguments->run, "Run directory (default: all in ./runs)");
  CLI::Option* json = verb->add_flag("--json", arguments->json, "Print as JSON");
  CLI::Option* watch = verb->add_flag("--watch", arguments->watch,
                                      "Redraw on the terminal until the run ends or q or Ctrl-C is pressed");
  watch->excludes(json);
  verb->add_option("--every", arguments->every, "With --watch: seconds between updates")
      ->check(seconds_from(0.05))
      ->capture_default_str()
      ->needs(watch);
  verb->callback([arguments, &chosen] { chosen = [arguments] { return status(*arguments); }; });
}

}  // namespace estrain::cmd

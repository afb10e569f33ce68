#include <memory>
#include <string>

#include "cmd/commands.h"
#include "core/base/json/json_text.h"
#include "core/run/launch/control/control_socket.h"

namespace estrain::cmd {
namespace {

struct StopArguments {
  std::string run;
  bool json = false;
};

int stop(const StopArguments& arguments) {
  const Json answer = launch::ask_launcher(arguments.run, decisions::StopRequest{}, std::nullopt);
  if (arguments.json) {
    fmt::print("{}\n", json_text(answer));
  } else {
    fmt::print("stopped at step {}; continue with `estrain train --resume --run {}`\n",
               answer.at("step").get<int64_t>(), arguments.run);
  }
  return 0;
}

}  // namespace

void add_stop(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("stop", "Stop a running job with a checkpoint to resume from");
  auto arguments = std::make_shared<StopArguments>();
  verb->add_option("RUN", arguments->run, "Run directory")->required();
  verb->add_flag("--json", arguments->json, "Print what was done as JSON");
  verb->callback([arguments, &chosen] { chosen = [arguments] { return stop(*arguments); }; });
}

}  // namespace estrain::cmd

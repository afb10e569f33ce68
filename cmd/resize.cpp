#include <memory>
#include <optional>
#include <string>

#include "cmd/commands.h"
#include "cmd/validators.h"
#include "core/base/json/json_fields.h"
#include "core/base/json/json_text.h"
#include "core/base/visible_text.h"
#include "core/run/launch/control/control_socket.h"
#include "core/run/launch/preflight/devices.h"

namespace estrain::cmd {
namespace {

struct ResizeArguments {
  std::string run;
  std::optional<std::string> devices, more;
  bool json = false, oversubscribe = false, allow_mixed = false;
};

int resize(const ResizeArguments& arguments) {
  // Reports a bad list without asking the launcher.
  const bool adds = arguments.more.has_value();
  if (!adds && !arguments.devices) throw Error(Fault::usage, "--devices or --add is required");
  const std::string& list = adds ? *arguments.more : *arguments.devices;
  if (adds || list != launch::automatic_devices) launch::parse_devices(list);
  const decisions::ResizeRequest request{list, arguments.oversubscribe, arguments.allow_mixed, adds};
  const Json answer = launch::ask_launcher(arguments.run, request, std::nullopt);
  fmt::print("{}\n", arguments.json ? json_text(answer) : visible(text_in(answer, "message").value_or("")));
  return 0;
}

struct OfferArguments {
  std::string run, devices;
  double within = 5;  // seconds
  bool json = false;
};

int ask(const OfferArguments& arguments, const decisions::Request& request) {
  launch::parse_devices(arguments.devices);  // reports a bad list without asking the launcher
  const Json answer = launch::ask_launcher(arguments.run, request, std::nullopt);
  const std::string stopped = fmt::format("stopped at step {}; continue with `estrain train --resume --run {}`",
                                          whole_in(answer, "step").value_or(0), arguments.run);
  fmt::print("{}\n", arguments.json ? json_text(answer) : visible(text_in(answer, "message").value_or(stopped)));
  return 0;
}

CLI::App* add_verb(CLI::App& app, const char* name, const char* about, OfferArguments& arguments) {
  CLI::App* verb = app.add_subcommand(name, about);
  verb->add_option("RUN", arguments.run, "Run directory")->required();
  verb->add_option("LIST", arguments.devices, "A number of CPU devices, or a list as for train")->required();
  verb->add_flag("--json", arguments.json, "Print the answer as JSON");
  return verb;
}

}  // namespace

void add_resize(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("resize", "Change the devices of a running job; its bits stay the same");
  auto arguments = std::make_shared<ResizeArguments>();
  verb->add_option("RUN", arguments->run, "Run directory")->required();
  CLI::Option* devices = verb->add_option(
      "--devices", arguments->devices,
      "A number of CPU workers, a list as for train, or auto: the planner's best split over the current devices");
  verb->add_option("--add", arguments->more, "A list of devices beside those that the job has")->excludes(devices);
  verb->add_flag("--oversubscribe", arguments->oversubscribe, "Accept several workers on one GPU (for tests)");
  verb->add_flag("--allow-mixed", arguments->allow_mixed,
                 "Accept devices of other kinds than the job's; below D2 they change its bits");
  verb->add_flag("--json", arguments->json, "Print what was done as JSON");
  verb->callback([arguments, &chosen] { chosen = [arguments] { return resize(*arguments); }; });
}

void add_offer(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<OfferArguments>();
  CLI::App* verb =
      add_verb(app, "offer", "Offer free devices to a running job; it takes those that speed it up enough", *arguments);
  verb->callback([arguments, &chosen] {
    chosen = [arguments] { return ask(*arguments, decisions::OfferRequest{arguments->devices}); };
  });
}

void add_reclaim(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<OfferArguments>();
  CLI::App* verb = add_verb(
      app, "reclaim", "Take devices back from a running job; if it loses all of them, it stops and can be resumed",
      *arguments);
  verb->add_option("--within", arguments->within, "Time within which they must be free: 5s, 500ms, 2min (default 5s)")
      ->transform(CLI::AsNumberWithUnit(std::map<std::string, double>{{"ms", 0.001}, {"s", 1}, {"min", 60}},
                                        CLI::AsNumberWithUnit::CASE_SENSITIVE, "TIME"))
      ->check(seconds_from(0.001));
  verb->callback([arguments, &chosen] {
    chosen = [arguments] { return ask(*arguments, decisions::ReclaimRequest{arguments->devices, arguments->within}); };
  });
}

}  // namespace estrain::cmd

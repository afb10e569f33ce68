#include <memory>
#include <string>
#include <vector>

#include "cmd/commands.h"
#include "core/launch/operator_probe.h"
#include "core/spec/parse.h"

namespace estrain::cmd {
namespace {

struct Arguments {
  std::string spec, devices;
  std::vector<std::string> overrides;
  bool json = false;
};

int check(const Arguments& arguments) {
  const spec::JobSpec spec = spec::parse_file(arguments.spec, arguments.overrides);
  const std::vector<launch::Device> devices =
      launch::parse_devices(arguments.devices.empty() ? spec.resources.devices : arguments.devices);
  launch::check_devices(devices, true);
  launch::place_ests(devices, spec.job.ests);
  Json report = launch::probe_operators(spec, devices.front(), true);
  const launch::Verdict verdict = launch::choose_determinism(report);
  const bool covered = launch::uncovered_operators(report).empty();
  report["verdict"] = verdict.determinism == spec::Determinism::d2 ? "D2" : "D1";
  report["reason"] = verdict.reason;
  if (arguments.json) {
    fmt::print("{}\n", report.dump());
  } else {
    fmt::print("{}\ndeterminism: {} ({})\n", launch::format_operators(report), report.at("verdict").get<std::string>(),
               verdict.reason);
  }
  const bool wants_d2 = spec.job.determinism == spec::Determinism::d2;
  return wants_d2 && !covered ? exit_code(Fault::infeasible) : 0;
}

}  // namespace

void add_check(CLI::App& app, Action& chosen) {
  CLI::App* verb =
      app.add_subcommand("check", "Try one mini-batch: its operators, their cost, and the level to choose");
  auto arguments = std::make_shared<Arguments>();
  verb->add_option("SPEC", arguments->spec, "Job spec (TOML)")->required();
  verb->add_option("--devices", arguments->devices, "As for train; the first one is tried");
  verb->add_option("--set", arguments->overrides, "Override a key of the spec: --set data.batch=16")
      ->take_all()
      ->expected(1);
  verb->add_flag("--json", arguments->json, "Print as JSON");
  verb->callback([arguments, &chosen] { chosen = [arguments] { return check(*arguments); }; });
}

}  // namespace estrain::cmd

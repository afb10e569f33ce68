// The two processes by which a launcher works with other hosts: the courier, and the relay to workers on those hosts.

#include <csignal>
#include <memory>

#include "cmd/commands.h"
#include "cmd/hosts_library.h"
#include "cmd/worker_library.h"
#include "core/hosts/setup.h"
#include "core/job/spec/parsing/parse.h"
#include "core/state/comm/messages/failed.h"
#include "core/state/run_directory/passed_spec.h"

namespace estrain::cmd {
namespace {

struct CourierArguments {
  std::string run;
  int spec = -1, memory = -1, socket = -1, doorbell = -1;
};

// Runs `work`; `report` tells the launcher an error.
template <typename Work, typename Report>
[[noreturn]] void work_for_launcher(Work&& work, Report&& report) {
  for (int number : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) ::signal(number, SIG_IGN);  // the launcher decides
  ::signal(SIGPIPE, SIG_IGN);
  const auto end_by = [&](const Error& error) {
    report(error);
    comm::print_last_error(error);
    leave(exit_code(error.fault()));
  };
  try {
    work();
  } catch (const Error& error) {
    end_by(error);
  } catch (const std::exception& error) {
    end_by(Error(Fault::bug, error.what()));
  }
  leave(0);
}

int run_courier(const CourierArguments& arguments) {
  hosts::CourierSetup setup;
  setup.run = arguments.run;
  setup.memory = arguments.memory;
  setup.doorbell = arguments.doorbell;
  setup.launcher = comm::MessageSocket(UniqueFd(arguments.socket));
  work_for_launcher(
      [&] { reinterpret_cast<void (*)(hosts::CourierSetup*)>(hosts_library_function("estrain_run_courier"))(&setup); },
      [&](const Error& error) { setup.launcher.send(hosts::told(error)); });
}

int run_relay(const CourierArguments& arguments) {
  hosts::RelaySetup setup;
  setup.launcher = UniqueFd(arguments.socket);
  work_for_launcher(
      [&] {
        setup.run = arguments.run;
        const spec::JobSpec spec = run_directory::read_passed_spec(arguments.spec);
        setup.interface = spec.network.interface;
        setup.spec = spec::to_toml(spec);
        reinterpret_cast<void (*)(hosts::RelaySetup*)>(hosts_library_function("estrain_run_relay"))(&setup);
      },
      [](const Error&) {});  // the launcher sees the end of all its workers on other hosts
}

}  // namespace

void add_courier(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("courier", "Talks to the other hosts of a job, started by train")->group("");
  auto arguments = std::make_shared<CourierArguments>();
  verb->add_option("--run", arguments->run)->required();
  verb->add_option("--memory", arguments->memory)->required();
  verb->add_option("--doorbell", arguments->doorbell)->required();
  verb->add_option("--socket", arguments->socket)->required();
  verb->callback([arguments, &chosen] { chosen = [arguments] { return run_courier(*arguments); }; });
}

void add_relay(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("relay", "Talks to workers on other hosts, started by train")->group("");
  auto arguments = std::make_shared<CourierArguments>();
  verb->add_option("--run", arguments->run)->required();
  verb->add_option("--spec", arguments->spec)->required();
  verb->add_option("--socket", arguments->socket)->required();
  verb->callback([arguments, &chosen] { chosen = [arguments] { return run_relay(*arguments); }; });
}

}  // namespace estrain::cmd

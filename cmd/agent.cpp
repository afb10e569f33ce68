#include <memory>
#include <string>

#include "cmd/commands.h"
#include "cmd/hosts_library.h"
#include "cmd/job_hosts.h"
#include "cmd/validators.h"
#include "cmd/worker_library.h"
#include "core/hosts/setup.h"

namespace estrain::cmd {
namespace {

int wait_for_work(hosts::AgentSetup& setup) {
  if (setup.name.empty()) setup.name = own_host_name();
  reinterpret_cast<void (*)(hosts::AgentSetup*)>(hosts_library_function("estrain_run_agent"))(&setup);
  leave(setup.exit_code);
}

}  // namespace

void add_agent(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("agent", "Make this host's devices available to a run that another host leads");
  auto setup = std::make_shared<hosts::AgentSetup>();
  verb->add_option("--run", setup->run, "Run directory, on a file system that both hosts see")
      ->required()
      ->check(not_empty());
  verb->add_option(
      "--name", setup->name,
      "What device lists call this host: nodeB in nodeB/cpu (default: its name in Slurm, or else the host's own)");
  CLI::Option* address = verb->add_option(
      "--address", setup->address,
      "Address to listen on and to be reached at, with a port or without (default: what the host's own "
      "name leads to)");
  verb->add_option("--interface", setup->interface, "Network interface whose address to listen on")->excludes(address);
  verb->add_option("--key-file", setup->key, "The run's network key (default: network.key in the run directory)");
  verb->add_option("--patience", setup->patience_seconds,
                   "Seconds to wait for a coordinator once it is lost, before ending with 75 (default 90)")
      ->check(seconds_from(0));
  verb->callback([setup, &chosen] { chosen = [setup] { return wait_for_work(*setup); }; });
}

}  // namespace estrain::cmd

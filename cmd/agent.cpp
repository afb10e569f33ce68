#include <unistd.h>

#include <memory>
#include <string>

#include "cmd/commands.h"
#include "cmd/hosts_library.h"
#include "cmd/validators.h"
#include "cmd/worker_library.h"
#include "core/hosts/setup.h"

namespace estrain::cmd {
namespace {

std::string own_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

int wait_for_work(hosts::AgentSetup& setup) {
  if (setup.name.empty()) setup.name = own_name();
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
  verb->add_option("--name", setup->name,
                   "What device lists call this host: nodeB in nodeB/cpu (default: the host's own name)");
  verb->add_option("--address", setup->address,
                   "Address to listen on and to be reached at, with a port or without (default: what the host's own "
                   "name leads to)");
  verb->add_option("--key-file", setup->key, "The run's network key (default: network.key in the run directory)");
  verb->add_option("--patience", setup->patience_seconds,
                   "Seconds to wait for a coordinator once it is lost, before ending with 75 (default 90)")
      ->check(seconds_from(0));
  verb->callback([setup, &chosen] { chosen = [setup] { return wait_for_work(*setup); }; });
}

}  // namespace estrain::cmd

#include "cmd/pool.h"

namespace estrain::cmd {

void add_pool(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("pool", "Run many jobs on shared devices");
  verb->require_subcommand(1);
  add_pool_serve(*verb, chosen);
  add_pool_submit(*verb, chosen);
  add_pool_queue(*verb, chosen);
  add_pool_devices(*verb, chosen);
}

}  // namespace estrain::cmd

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "cmd/commands.h"
#include "cmd/hosts_library.h"
#include "cmd/job_hosts.h"
#include "cmd/validators.h"
#include "cmd/worker_library.h"
#include "core/base/files/temporary_folder.h"
#include "core/hosts/setup.h"
#include "core/pool/hosts/pool_agent.h"

namespace estrain::cmd {
namespace {

constexpr double kPatienceWithCoordinator = 90, kPatienceWithDaemon = 60;  // s

struct AgentArguments {
  hosts::AgentSetup run;
  pool::PoolAgentOptions pool;
  std::optional<double> patience;
};

// The run directory of a joining agent: holds the logs of the agent's workers, which stay if the agent fails.
class OwnFolder {
 public:
  ~OwnFolder() {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(path(), ignored)) {
      if (!has_ended_well_ && entry.path().extension() == ".log") folder_.keep();
    }
  }

  const std::string& path() const { return folder_.path(); }
  void ended_well() { has_ended_well_ = true; }

 private:
  TemporaryFolder folder_{"agent"};
  bool has_ended_well_ = false;
};

int serve_run(AgentArguments& arguments) {
  hosts::AgentSetup& setup = arguments.run;
  setup.patience_seconds = arguments.patience.value_or(kPatienceWithCoordinator);
  if (setup.name.empty()) setup.name = own_host_name();
  std::optional<OwnFolder> own;
  if (setup.run.empty()) {
    setup.run = own.emplace().path();
    fmt::print("host {}: logs are in {}\n", setup.name, setup.run);
  }
  reinterpret_cast<void (*)(hosts::AgentSetup*)>(hosts_library_function("estrain_run_agent"))(&setup);
  if (own && setup.exit_code == 0) own->ended_well();
  own.reset();
  leave(setup.exit_code);
}

int serve_pool(AgentArguments& arguments) {
  pool::PoolAgentOptions& options = arguments.pool;
  options.name = arguments.run.name.empty() ? own_host_name() : arguments.run.name;
  options.address = arguments.run.address;
  options.interface = arguments.run.interface;
  options.patience_seconds = arguments.patience.value_or(kPatienceWithDaemon);
  return pool::run_pool_agent(options);
}

}  // namespace

void add_agent(CLI::App& app, Action& chosen) {
  CLI::App* verb =
      app.add_subcommand("agent", "Make this host's devices available to a run, or a pool, that another host leads");
  auto arguments = std::make_shared<AgentArguments>();
  hosts::AgentSetup& setup = arguments->run;
  CLI::Option* run =
      verb->add_option("--run", setup.run,
                       "Run directory, on a file system that both hosts see. With --join: a folder of this host for "
                       "what its workers print (default: one in the temporary folder)")
          ->check(not_empty());
  CLI::Option* join = verb->add_option("--join", setup.join,
                                       "Joins a job without its run directory: the address of `train --listen`. This "
                                       "host needs the job's data and model files at the same paths, and cannot take "
                                       "the launcher's place; if that is lost, it waits for one to come back")
                          ->check(host_and_port(true));
  CLI::Option* pool = verb->add_option("--pool", arguments->pool.pool,
                                       "Folder of a pool, on a file system that both hosts see: its jobs get devices "
                                       "of this host, until SIGTERM takes them back")
                          ->check(not_empty())
                          ->excludes(run)
                          ->excludes(join);
  verb->add_option("--devices", arguments->pool.devices,
                   "With --pool: devices of this host, as for train (default: a CPU device for each core)")
      ->check(not_empty())
      ->needs(pool);
  verb->add_option("--memory", arguments->pool.memory,
                   "With --pool: memory of this host for the pool's jobs, such as 64GB (default: the machine's, or the "
                   "cgroup's limit, less a sixteenth)")
      ->transform(as_memory())
      ->needs(pool);
  verb->add_option("--rack", arguments->pool.rack,
                   "With --pool: rack of this host. A job on several hosts gets hosts of few racks")
      ->check(not_empty())
      ->needs(pool);
  verb->add_option(
      "--name", setup.name,
      "What device lists call this host: nodeB in nodeB/cpu (default: its name in Slurm, or else the host's own)");
  CLI::Option* address = verb->add_option(
      "--address", setup.address,
      "Address to listen on and to be reached at, with a port or without (default: what the host's own "
      "name leads to; with --join: the one by which it reaches the launcher)");
  verb->add_option("--interface", setup.interface, "Network interface whose address to listen on")->excludes(address);
  CLI::Option* key = verb->add_option("--key-file", setup.key,
                                      "The run's network key (default: network.key in the run directory). --join needs "
                                      "a copy of that file, which no other user may read")
                         ->excludes(pool);
  join->needs(key);
  verb->add_option(
          "--patience", arguments->patience,
          "Seconds to wait for a coordinator once it is lost, before ending with 75 (default 90); with --join also "
          "for the first one, before ending with 1; with --pool: for the pool's daemon at first, before ending with 1 "
          "(default 60)")
      ->check(seconds_from(0));
  verb->callback([arguments, &chosen] {
    if (arguments->run.run.empty() && arguments->run.join.empty() && arguments->pool.pool.empty())
      throw CLI::RequiredError("--run, --join or --pool");
    chosen = [arguments] { return arguments->pool.pool.empty() ? serve_run(*arguments) : serve_pool(*arguments); };
  });
}

}  // namespace estrain::cmd

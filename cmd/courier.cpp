// The two processes by which a launcher works with other hosts: its courier, and the proxies of workers there.

#include <csignal>
#include <memory>

#include "cmd/commands.h"
#include "cmd/hosts_library.h"
#include "cmd/worker_library.h"
#include "core/hosts/setup.h"
#include "core/launch/passed_spec.h"
#include "core/spec/parse.h"

namespace estrain::cmd {
namespace {

struct Arguments {
  std::string run, host, device;
  int64_t id = 0;
  int spec = -1, memory = -1, socket = -1, doorbell = -1;
  bool less_memory = false, allow_mixed = false, cuda_streams = false;
};

// Runs `work`; what goes wrong is told the launcher.
template <typename Work>
[[noreturn]] void work_for_launcher(comm::MessageSocket& launcher, Work&& work) {
  for (int number : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) ::signal(number, SIG_IGN);  // the launcher decides
  ::signal(SIGPIPE, SIG_IGN);
  try {
    work();
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n{}\n", error.message(), error.advice());
    launcher.send({{"say", "error"},
                   {"fault", static_cast<int>(error.fault())},
                   {"message", error.message()},
                   {"advice", error.advice()}});
    leave(exit_code(error.fault()));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    launcher.send({{"say", "error"}, {"fault", static_cast<int>(Fault::bug)}, {"message", error.what()}});
    leave(exit_code(Fault::bug));
  }
  leave(0);
}

int run_courier(const Arguments& arguments) {
  hosts::CourierSetup setup;
  setup.run = arguments.run;
  setup.memory = arguments.memory;
  setup.doorbell = arguments.doorbell;
  setup.launcher = comm::MessageSocket(UniqueFd(arguments.socket));
  work_for_launcher(setup.launcher, [&] {
    reinterpret_cast<void (*)(hosts::CourierSetup*)>(hosts_library_function("estrain_run_courier"))(&setup);
  });
}

int run_proxy(const Arguments& arguments) {
  hosts::ProxySetup setup;
  setup.launcher = comm::MessageSocket(UniqueFd(arguments.socket));
  work_for_launcher(setup.launcher, [&] {
    setup.run = arguments.run;
    setup.host = arguments.host;
    setup.device = arguments.device;
    setup.id = arguments.id;
    setup.spec = spec::to_toml(launch::read_passed_spec(arguments.spec));
    setup.less_memory = arguments.less_memory;
    setup.allow_mixed = arguments.allow_mixed;
    setup.cuda_streams = arguments.cuda_streams;
    reinterpret_cast<void (*)(hosts::ProxySetup*)>(hosts_library_function("estrain_run_proxy"))(&setup);
  });
}

}  // namespace

void add_courier(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("courier", "Talks to the other hosts of a job, started by train")->group("");
  auto arguments = std::make_shared<Arguments>();
  verb->add_option("--run", arguments->run)->required();
  verb->add_option("--memory", arguments->memory)->required();
  verb->add_option("--doorbell", arguments->doorbell)->required();
  verb->add_option("--socket", arguments->socket)->required();
  verb->callback([arguments, &chosen] { chosen = [arguments] { return run_courier(*arguments); }; });
}

void add_proxy(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("proxy", "Stands in for a worker on another host, started by train")->group("");
  auto arguments = std::make_shared<Arguments>();
  verb->add_option("--run", arguments->run)->required();
  verb->add_option("--host", arguments->host)->required();
  verb->add_option("--device", arguments->device)->required();
  verb->add_option("--id", arguments->id)->required();
  verb->add_option("--spec", arguments->spec)->required();
  verb->add_option("--socket", arguments->socket)->required();
  verb->add_flag("--allow-mixed", arguments->allow_mixed);
  verb->add_flag("--cuda-streams", arguments->cuda_streams);
  verb->add_flag("--less-memory", arguments->less_memory);
  verb->callback([arguments, &chosen] { chosen = [arguments] { return run_proxy(*arguments); }; });
}

}  // namespace estrain::cmd

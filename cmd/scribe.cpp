#include "core/state/record/scribe.h"

#include <csignal>
#include <memory>
#include <string>

#include "cmd/commands.h"
#include "core/state/run_directory/passed_spec.h"
#include "core/state/run_directory/verdict.h"

namespace estrain::cmd {
namespace {

struct ScribeArguments {
  std::string run;
  int spec = -1, memory = -1, socket = -1, doorbell = -1, lock = -1;
  int64_t from_step = 0;
};

// The scribe holds the run directory's lock.
void tell_of_killed_launcher(const std::string& run, Step saved) {
  run_directory::RunVerdict verdict{.exit_code = exit_code(Fault::interrupted),
                                    .outcome = "killed",
                                    .cause = "the launcher ended without a word",
                                    .advice = "resume with `estrain train --resume --run " + run + "`",
                                    .step = saved.value,
                                    .saved_step = saved.value};
  run_directory::write_verdict(run, verdict);
}

int write_records(const ScribeArguments& arguments) {
  for (int number : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) ::signal(number, SIG_IGN);  // the launcher decides
  record::ScribeSetup setup;
  setup.run = arguments.run;
  setup.spec = run_directory::read_passed_spec(arguments.spec);
  setup.memory = arguments.memory;
  setup.doorbell = arguments.doorbell;
  setup.launcher = record::ScribesOwnChannel(comm::MessageSocket(UniqueFd(arguments.socket)));
  setup.lock = UniqueFd(arguments.lock);
  setup.from_step = arguments.from_step;
  try {
    if (const auto saved = record::run_scribe(setup)) tell_of_killed_launcher(setup.run, *saved);
  } catch (const Error& error) {
    setup.launcher.send(comm::Failed(error));
    throw;
  }
  return 0;
}

}  // namespace

void add_scribe(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("scribe", "The process that writes a run's files, started by train")->group("");
  auto arguments = std::make_shared<ScribeArguments>();
  verb->add_option("--run", arguments->run)->required();
  verb->add_option("--spec", arguments->spec)->required();
  verb->add_option("--memory", arguments->memory)->required();
  verb->add_option("--socket", arguments->socket)->required();
  verb->add_option("--doorbell", arguments->doorbell)->required();
  verb->add_option("--lock", arguments->lock)->required();
  verb->add_option("--from-step", arguments->from_step)->required();
  verb->callback([arguments, &chosen] { chosen = [arguments] { return write_records(*arguments); }; });
}

}  // namespace estrain::cmd

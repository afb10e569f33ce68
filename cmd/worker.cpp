// A worker process: opens its data while LibTorch loads, then hands over to the worker library.

#include "core/engine/train/worker.h"

#include <csignal>
#include <future>
#include <memory>
#include <string>

#include "cmd/commands.h"
#include "cmd/refused_memory.h"
#include "cmd/users_python.h"
#include "cmd/worker_library.h"
#include "core/base/process/child_process.h"
#include "core/data/files/mapped_files.h"
#include "core/data/job_data.h"
#include "core/planning/profile/profile_store.h"
#include "core/state/algorithms/pinning.h"
#include "core/state/comm/messages/worker_arguments.h"
#include "core/state/run_directory/passed_spec.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::cmd {
namespace {

using comm::WorkerArguments;
using RunWorker = void (*)(train::WorkerSetup*);

// A failure after a refusal of memory may be the consequence of the refusal.
Error blaming_memory(const Error& error, uint64_t refusals) {
  if (refusals == 0) return error;
  return Error(Fault::io, error.message()).advise(error.advice()).within("Cannot allocate memory");
}

[[noreturn]] void report(train::WorkerSetup& setup, const Error& raised) {
  const Error error = blaming_memory(raised, setup.refused_memory->load());
  setup.launcher.send(comm::Failed(error));
  comm::print_last_error(error);
  leave(exit_code(error.fault()));
}

int work(const WorkerArguments& arguments) {
  for (int number : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) ::signal(number, SIG_IGN);  // the launcher decides
  train::WorkerSetup setup;
  setup.refused_memory = &watch_refused_memory();
  setup.launcher = comm::WorkersOwnChannel(comm::MessageSocket(UniqueFd(arguments.socket)));
  try {
    setup.spec = run_directory::read_passed_spec(arguments.spec);
    setup.options = arguments.worker_options();
    if (setup.spec.model.is_python()) become_users_python(setup.spec, python_worker(arguments), arguments.library);
    if (setup.options.less_memory) setup.spec.data.readers = setup.spec.data.prefetch = 1;
    data::name_shortened_files();
    setup.data = std::async(std::launch::async, [&spec = setup.spec] { return data::open_job(spec); });
    setup.memory = arguments.memory;
    setup.doorbell = arguments.doorbell;
    setup.courier = arguments.courier;
    setup.libraries = library_folder();
    const run_directory::RunDirectory run(arguments.run);
    setup.algorithms = run.algorithms();
    setup.traces = run.traces();
    setup.outputs = run.outputs();
    setup.rows = run.rows();
    setup.algorithm_store = algorithms::store_beside(profile::default_store_path(own_environment()));
    reinterpret_cast<RunWorker>(worker_library_function("estrain_run_worker", arguments.library))(&setup);
  } catch (const Error& error) {
    report(setup, error);
  } catch (const std::exception& error) {
    report(setup, Error(Fault::bug, error.what()));
  }
  leave(0);
}

}  // namespace

void add_worker(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("worker", "A worker process, started by train")->group("");
  auto arguments = std::make_shared<WorkerArguments>();
  WorkerArguments::fields(
      *arguments, [verb](std::string_view name, auto& value) { verb->add_option(fmt::format("--{}", name), value); });
  verb->callback([arguments, &chosen] { chosen = [arguments] { return work(*arguments); }; });
}

}  // namespace estrain::cmd

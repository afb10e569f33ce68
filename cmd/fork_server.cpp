// A process that has loaded the worker library and decompressed the data. It starts copies of itself, and each copy
// becomes a worker. For a module in Python this process is the user's Python.

#include "core/base/process/fork_server.h"

#include <future>
#include <memory>

#include "cmd/commands.h"
#include "cmd/users_python.h"
#include "cmd/worker_library.h"
#include "core/data/job_data.h"
#include "core/state/run_directory/passed_spec.h"

namespace estrain::cmd {
namespace {

// Becomes the worker of these arguments.
int become_worker(std::vector<std::string> arguments) {
  CLI::App app;
  Action chosen;
  add_worker(app, chosen);
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  app.parse(static_cast<int>(words.size()), words.data());
  return chosen();
}

struct ForkServerArguments {
  int socket = -1, spec = -1, library = -1;
  std::string room;
};

int serve(const ForkServerArguments& arguments) {
  try {
    const spec::JobSpec spec = run_directory::read_passed_spec(arguments.spec);
    if (spec.model.is_python()) become_users_python(spec, python_server(arguments.socket), arguments.library);
    auto data = std::async(std::launch::async, [&] { data::keep_decompressed(data::job_file_names(spec)); });
    worker_library_function("estrain_run_worker", arguments.library);
    data.get();
  } catch (const Error&) {
    leave(1);  // the workers start by exec, and report the error
  }
  return become_worker(serve_forks(arguments.socket));
}

}  // namespace

void add_fork_server(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("fork-server", "Starts workers quickly, started by train")->group("");
  auto arguments = std::make_shared<ForkServerArguments>();
  verb->add_option("--socket", arguments->socket)->required();
  verb->add_option("--spec", arguments->spec)->required();
  verb->add_option("--library", arguments->library);
  verb->add_option("--room-for-title", arguments->room);
  verb->callback([arguments, &chosen] { chosen = [arguments] { return serve(*arguments); }; });
}

}  // namespace estrain::cmd

// A process that has loaded the worker library, for GPUs CUDA's libraries too, and decompressed the data. It starts
// copies of itself, and each copy becomes a worker. For a module in Python this process is the user's Python.

#include "core/base/process/fork_server.h"

#include <dlfcn.h>
#include <unistd.h>

#include <future>
#include <memory>

#include "cmd/commands.h"
#include "cmd/users_python.h"
#include "cmd/worker_library.h"
#include "core/base/process/child_process.h"
#include "core/data/job_data.h"
#include "core/state/run_directory/passed_spec.h"

namespace estrain::cmd {
namespace {

constexpr int kNotInitialized = 3;  // CUDA_ERROR_NOT_INITIALIZED: the driver does not serve this process

// Loads what the workers of GPUs load, half a gigabyte, and starts nothing: once CUDA's driver has started in a
// process, the driver serves no copy of the process. If the libraries cannot be loaded, the workers report the error.
void load_cuda() { ::dlopen((library_folder() + "/libestrain_cuda.so").c_str(), RTLD_NOW | RTLD_LOCAL); }

// For a copy.
bool driver_serves_copies() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return true;  // the worker reports what is missing
  const auto start = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
  return start == nullptr || start(0) != kNotInitialized;
}

std::vector<char*> pointers_to(std::vector<std::string>& arguments) {
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  return words;
}

// Becomes the worker of these arguments as if no server had been there. Returns if the program cannot be executed.
void execute(std::vector<std::string> arguments) {
  std::vector<char*> words = pointers_to(arguments);
  words.push_back(nullptr);
  ::execv(own_executable().c_str(), words.data());
}

// Becomes the worker of these arguments.
int become_worker(std::vector<std::string> arguments) {
  CLI::App app;
  Action chosen;
  add_worker(app, chosen);
  std::vector<char*> words = pointers_to(arguments);
  app.parse(static_cast<int>(words.size()), words.data());
  return chosen();
}

struct ForkServerArguments {
  int socket = -1, spec = -1, library = -1;
  bool cuda = false;
  std::string room;
};

int serve(const ForkServerArguments& arguments) {
  try {
    const spec::JobSpec spec = run_directory::read_passed_spec(arguments.spec);
    if (spec.model.is_python()) become_users_python(spec, python_server(arguments.socket), arguments.library);
    auto data = std::async(std::launch::async, [&] { data::keep_decompressed(data::job_file_names(spec)); });
    worker_library_function("estrain_run_worker", arguments.library);
    if (arguments.cuda) load_cuda();
    data.get();
  } catch (const Error&) {
    leave(1);  // the workers start by exec, and report the error
  }
  std::vector<std::string> worker = serve_forks(arguments.socket);
  if (arguments.cuda && !driver_serves_copies()) execute(worker);
  return become_worker(std::move(worker));
}

}  // namespace

void add_fork_server(CLI::App& app, Action& chosen) {
  CLI::App* verb = app.add_subcommand("fork-server", "Starts workers quickly, started by train")->group("");
  auto arguments = std::make_shared<ForkServerArguments>();
  verb->add_option("--socket", arguments->socket)->required();
  verb->add_option("--spec", arguments->spec)->required();
  verb->add_option("--library", arguments->library);
  verb->add_flag("--cuda", arguments->cuda);
  verb->add_option("--room-for-title", arguments->room);
  verb->callback([arguments, &chosen] { chosen = [arguments] { return serve(*arguments); }; });
}

}  // namespace estrain::cmd

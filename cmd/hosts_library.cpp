#include "cmd/hosts_library.h"

#include <dlfcn.h>

#include "cmd/worker_library.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/hosts/setup.h"
#include "core/run/launch/control/control_socket.h"
#include "core/state/run_directory/run_directory.h"

namespace estrain::cmd {

void* hosts_library_function(const char* name) {
  const std::string path = library_folder() + "/libestrain_hosts.so";
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw Error::make(Fault::io, "cannot load the library for several hosts: {}", ::dlerror())
        .advise("install estrain again, or build it again in its source tree; the library belongs beside the program");
  }
  void* symbol = ::dlsym(library, name);
  if (symbol == nullptr) throw Error::make(Fault::bug, "{} is not estrain's library for several hosts", path);
  return symbol;
}

void reach_other_hosts() {
  launch::reach_elsewhere_by([](const std::string& run, const Json& request, std::optional<Nanoseconds> limit) {
    hosts::AskSetup setup{.run = run, .request = request, .limit = limit, .advice = {}, .answer = {}};
    if (const auto owner = run_directory::RunDirectory(run).owner_elsewhere())
      setup.advice = fmt::format("or give the command where the job's launcher is: {} estrain …", owner->reach());
    reinterpret_cast<void (*)(hosts::AskSetup*)>(hosts_library_function("estrain_ask_coordinator"))(&setup);
    return setup.answer;
  });
}

}  // namespace estrain::cmd

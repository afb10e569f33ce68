#include "cmd/hosts_library.h"

#include <dlfcn.h>

#include "cmd/worker_library.h"
#include "core/base/error.h"

namespace estrain::cmd {

void* hosts_library_function(const char* name) {
  const std::string path = library_folder() + "/libestrain_hosts.so";
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw Error::make(Fault::io, "cannot load the library for several hosts: {}", ::dlerror())
        .advise("run scripts/setup and scripts/build");
  }
  void* symbol = ::dlsym(library, name);
  if (symbol == nullptr) throw Error::make(Fault::bug, "{} is not estrain's library for several hosts", path);
  return symbol;
}

}  // namespace estrain::cmd

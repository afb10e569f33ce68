#include "cmd/worker_library.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/process/child_process.h"
#include "core/state/run_directory/worker_library.h"

namespace estrain::cmd {

std::string library_folder() { return std::filesystem::path(own_executable()).parent_path(); }

namespace {

void* load(const std::string& path) { return ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); }

bool is_file(const std::string& path, int descriptor) {
  struct stat named {
  }, opened{};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(descriptor, &opened) == 0 && named.st_dev == opened.st_dev &&
         named.st_ino == opened.st_ino;
}

}  // namespace

std::string worker_library_path(int descriptor) {
  const std::string path = run_directory::worker_library();
  return descriptor < 0 || is_file(path, descriptor) ? path : fmt::format("/proc/self/fd/{}", descriptor);
}

void* worker_library_function(const char* name, int descriptor) {
  const std::string path = run_directory::worker_library();
  void* library = load(worker_library_path(descriptor));
  if (library == nullptr) library = load(path);
  if (library == nullptr) {
    throw Error::make(Fault::io, "cannot load the worker library: {}", ::dlerror())
        .advise(
            "install estrain again, or build it again in its source tree; an estrain installed by pip wants its "
            "release of "
            "torch in the same site-packages: pip install --force-reinstall estrain's wheel")
        .caused_by("cannot_load_libs");
  }
  void* symbol = ::dlsym(library, name);
  if (symbol == nullptr)
    throw Error::make(Fault::bug, "{} is not estrain's worker library", path).caused_by("semantic_error");
  return symbol;
}

void leave(int code) {
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace estrain::cmd

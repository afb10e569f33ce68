// A library for LD_PRELOAD: MKL's buffers are refused in worker processes, as an address-space limit that is nearly
// reached would refuse them. MKL hides that and multiplies without a buffer.
//
// ESTRAIN_TEST_REFUSED names a file that is made at the first refusal.

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "own_verb.h"

namespace {

constexpr size_t kLeastBuffer = 32768;

bool is_worker() {
  static const bool answer = [] {
    const std::string verb = own_verb();
    return verb == "worker" || verb == "fork-server";  // whose copies are workers
  }();
  return answer;
}

bool called_by_mkl() {
  void* frames[8];
  const int depth = ::backtrace(frames, 8);
  for (int i = 0; i < depth; ++i) {
    Dl_info info;
    if (::dladdr(frames[i], &info) != 0 && info.dli_sname != nullptr &&
        std::string_view(info.dli_sname) == "mkl_serv_allocate")
      return true;
  }
  return false;
}

bool refuses(size_t bytes) {
  thread_local bool asking = false;  // what answers may allocate
  if (bytes < kLeastBuffer || asking || !is_worker()) return false;
  asking = true;
  const bool refused = called_by_mkl();
  if (refused) ::close(::open(std::getenv("ESTRAIN_TEST_REFUSED"), O_CREAT | O_WRONLY, 0600));
  asking = false;
  return refused;
}

}  // namespace

// Behind the program's own wrapper.
extern "C" void* malloc(size_t bytes) noexcept {
  using Malloc = void* (*)(size_t);
  static const auto next = reinterpret_cast<Malloc>(::dlsym(RTLD_NEXT, "malloc"));
  if (!refuses(bytes)) return next(bytes);
  errno = ENOMEM;
  return nullptr;
}

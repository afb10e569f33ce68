// A library for LD_PRELOAD: a worker that starts is stopped (SIGSTOP) before it has done anything, as long as the
// folder ESTRAIN_TEST_HELD contains a file "hold". Before the stop the worker makes an empty file in the folder, whose
// name is the worker's process id.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "own_verb.h"

namespace {

void hold() {
  const char* const folder = std::getenv("ESTRAIN_TEST_HELD");
  char path[512];
  std::snprintf(path, sizeof path, "%s/hold", folder);
  if (::access(path, F_OK) != 0) return;
  std::snprintf(path, sizeof path, "%s/%d", folder, static_cast<int>(::getpid()));
  ::close(::open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  ::raise(SIGSTOP);
}

// A worker that starts by exec.
[[gnu::constructor]] void hold_worker() {
  if (own_verb() == "worker") hold();
}

}  // namespace

// The first call of a worker that starts as a copy of the fork server; the server's own is before its exec.
extern "C" int prctl(int option, ...) noexcept {
  using Prctl = int (*)(int, unsigned long, unsigned long, unsigned long, unsigned long);
  static const auto next = reinterpret_cast<Prctl>(::dlsym(RTLD_NEXT, "prctl"));
  unsigned long values[4];
  va_list more;
  va_start(more, option);
  for (unsigned long& value : values) value = va_arg(more, unsigned long);
  va_end(more);
  if (option == PR_SET_PDEATHSIG && own_verb() == "fork-server") hold();
  return next(option, values[0], values[1], values[2], values[3]);
}

// A library for LD_PRELOAD: a worker that starts is stopped (SIGSTOP) before it has done anything, as long as the
// folder ESTRAIN_TEST_HELD contains a file "hold". The worker first writes its process id there, as an empty file of
// that name.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

bool is_process_of(std::string_view verb) {
  char line[4096] = {};
  const int file = ::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  const ssize_t length = ::read(file, line, sizeof line - 1);
  ::close(file);
  return length > 0 && verb == line + std::strlen(line) + 1;
}

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
  if (is_process_of("worker")) hold();
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
  if (option == PR_SET_PDEATHSIG && is_process_of("fork-server")) hold();
  return next(option, values[0], values[1], values[2], values[3]);
}

#include "core/serve/hosts/watched_signals.h"

#include <sys/signalfd.h>

#include <cerrno>
#include <csignal>

#include "core/base/error.h"

namespace estrain::serve {

UniqueFd watch_signals(std::initializer_list<int> numbers) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : numbers) ::sigaddset(&set, number);
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) throw system_error("cannot block signals", errno);
  UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) throw system_error("cannot watch signals", errno);
  return fd;
}

}  // namespace estrain::serve

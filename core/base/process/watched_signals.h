#pragma once
// Signals read from a descriptor, in a loop that polls.

#include <sys/signalfd.h>

#include <cerrno>
#include <csignal>
#include <span>

#include "core/base/error.h"
#include "core/base/files/unique_fd.h"

namespace estrain {

// These are blocked from now on; the descriptor gives a signalfd_siginfo (signalfd(2)) for each. Throws Fault::io.
inline UniqueFd watch_signals(std::span<const int> numbers) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : numbers) ::sigaddset(&set, number);
  if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) throw system_error("cannot block signals", errno);
  UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) throw system_error("cannot watch signals", errno);
  return fd;
}

}  // namespace estrain

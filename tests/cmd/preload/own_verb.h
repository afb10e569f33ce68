#pragma once
// For libraries in LD_PRELOAD: which process of estrain this is.

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <string>

// Returns the first argument of this process: "worker", "fork-server".
inline std::string own_verb() {
  char line[4096] = {};
  const int file = ::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  const ssize_t length = ::read(file, line, sizeof line - 1);
  ::close(file);
  return length > 0 ? line + std::strlen(line) + 1 : "";
}

#include "core/base/files/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/error.h"

namespace estrain {

UniqueFd memory_file(const char* name, std::string_view content) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) throw system_error("cannot create a file in memory", errno);
  for (size_t at = 0; at < content.size();) {
    const ssize_t written = ::pwrite(fd.get(), content.data() + at, content.size() - at, static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw system_error("cannot write to a file in memory", errno);
    at += static_cast<size_t>(written);
  }
  return fd;
}

void seal_memory_file(int fd) {
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
    throw system_error("cannot seal a file in memory", errno);
}

std::string read_memory_file(int fd) {
  struct stat file {};
  if (::fstat(fd, &file) != 0) throw system_error("cannot read a file in memory", errno);
  std::string content(static_cast<size_t>(file.st_size), '\0');
  for (size_t at = 0; at < content.size();) {
    const ssize_t got = ::pread(fd, content.data() + at, content.size() - at, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw system_error("cannot read a file in memory", got < 0 ? errno : EIO);
    at += static_cast<size_t>(got);
  }
  return content;
}

}  // namespace estrain

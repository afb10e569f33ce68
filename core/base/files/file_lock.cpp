#include "core/base/files/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

#include "core/base/error.h"
#include "core/base/files/own_file.h"

namespace estrain {

bool take_lock(int fd, const std::string& path) {
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK || errno == EINTR) return false;
  throw system_error("cannot lock " + path, errno)
      .advise("the file system must support locks (flock): mount it with locks, or use a folder elsewhere");
}

bool is_file_at(int fd, const std::string& path) {
  struct stat open {};
  struct stat there {};
  if (::stat(path.c_str(), &there) != 0) return errno != ENOENT;
  return ::fstat(fd, &open) == 0 && open.st_dev == there.st_dev && open.st_ino == there.st_ino;
}

bool lock_file_at(const std::string& path, UniqueFd& fd, unsigned mode) {
  if (!fd || !is_file_at(fd.get(), path)) fd = open_own_file(path, O_RDWR | O_CREAT, mode);
  return take_lock(fd.get(), path) && is_file_at(fd.get(), path);
}

}  // namespace estrain

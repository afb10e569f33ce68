#include "core/base/files/own_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/files/files.h"

namespace estrain {
namespace {

std::string folder_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

Error refused(const std::string& path, const std::string& what) {
  return Error::make(Fault::usage, "{}: refusing to write to it: {}", path, what)
      .advise("remove it, or use another directory; `ls -l " + path + "` shows what is there");
}

std::string link_text(const std::string& path) {
  std::error_code unreadable;
  return "a symbolic link to " + std::filesystem::read_symlink(path, unreadable).string();
}

// Throws if a file with this status, at `path`, must not be written to.
void judge(const struct stat& file, const std::string& path) {
  if (S_ISLNK(file.st_mode)) throw refused(path, link_text(path));
  if (!S_ISREG(file.st_mode)) throw refused(path, "not a regular file");
  struct stat folder {};
  if (::stat(folder_of(path).c_str(), &folder) != 0) throw system_error("cannot look at " + folder_of(path), errno);
  const uid_t me = ::geteuid();
  if (file.st_uid != me && file.st_uid != folder.st_uid)
    throw refused(path, fmt::format("it belongs to another user (uid {})", file.st_uid));
  if (file.st_nlink > 1 && folder.st_uid != me)
    throw refused(path, fmt::format("it has {} names (hard links), and the folder belongs to another user (uid {})",
                                    file.st_nlink, folder.st_uid));
}

}  // namespace

UniqueFd open_own_file(const std::string& path, int flags, unsigned mode) {
  // O_NONBLOCK: open or refuse a FIFO without waiting.
  UniqueFd fd(::open(path.c_str(), (flags & ~O_TRUNC) | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode));
  if (!fd && (errno == ELOOP || errno == ENXIO || errno == EISDIR)) {
    const int failure = errno;
    require_own_file(path);
    throw system_error("cannot open " + path, failure);
  }
  if (!fd) throw system_error("cannot open " + path, errno);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) throw system_error("cannot look at " + path, errno);
  judge(status, path);
  if ((flags & O_TRUNC) != 0 && ::ftruncate(fd.get(), 0) != 0) throw system_error("cannot shorten " + path, errno);
  return fd;
}

void require_own_file(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return judge(status, path);
  if (errno != ENOENT) throw system_error("cannot look at " + path, errno);
}

UniqueFd create_temporary(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw system_error("cannot remove " + path, errno);
  return open_file(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
}

void require_own_folder(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode) && status.st_uid != ::geteuid())
    throw refused(path, fmt::format("{} that another user (uid {}) made", link_text(path), status.st_uid));
}

}  // namespace estrain

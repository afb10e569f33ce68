#include "core/base/files/disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "core/base/error.h"
#include "core/base/files/files.h"

namespace estrain {
namespace {

class RealDisk final : public Disk {
 public:
  void sync_file(int fd, const std::string& path) override {
    if (::fsync(fd) != 0) throw system_error("cannot write " + path, errno);
  }
  void sync_folder(const std::string& path) override {
    const UniqueFd fd = open_file(path.empty() ? "." : path, O_RDONLY | O_DIRECTORY);
    if (::fsync(fd.get()) != 0) throw system_error("cannot sync folder " + path, errno);
  }
  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) throw system_error("cannot rename " + from, errno);
  }
  void make_link(const std::string& target, const std::string& path) override {
    if (::symlink(target.c_str(), path.c_str()) != 0) throw system_error("cannot create " + path, errno);
  }
  void remove(const std::string& path) override {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw system_error("cannot remove " + path, errno);
  }
};

}  // namespace

Disk& real_disk() {
  static RealDisk disk;
  return disk;
}

}  // namespace estrain

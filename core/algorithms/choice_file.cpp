#include "core/algorithms/choice_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "core/base/error.h"
#include "core/base/files.h"

namespace estrain::algorithms {
namespace {

constexpr auto kBetweenTries = std::chrono::milliseconds(2);

struct stat status_of(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw system_error("cannot read " + path, errno);
  return status;
}

// Whether the file that is open is still the one of that name: a user may delete it at any time.
bool stands_there(int fd, const std::string& path) {
  struct stat there {};
  return ::stat(path.c_str(), &there) == 0 && there.st_ino == status_of(fd, path).st_ino;
}

}  // namespace

Choices ChoiceFile::read() const { return Choices::from_text(read_file_if_present(path_).value_or(""), path_); }

void ChoiceFile::Held::add(const Choice& choice) {
  append_line(file_.path_, choice.to_line());
  file_.choices_.put(choice);
  const struct stat status = status_of(lock_.get(), file_.path_);
  file_.inode_ = status.st_ino;
  file_.bytes_ = status.st_size;
}

ChoiceFile::Held ChoiceFile::hold(const std::function<void()>& waiting) {
  const auto folder = std::filesystem::path(path_).parent_path();
  if (!folder.empty()) make_folders(folder.string());
  for (;;) {
    UniqueFd fd = open_file(path_, O_RDWR | O_CREAT);
    while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) throw system_error("cannot lock " + path_, errno);
      if (waiting) waiting();
      std::this_thread::sleep_for(kBetweenTries);
    }
    if (!stands_there(fd.get(), path_)) continue;
    refresh(fd.get());
    return {*this, std::move(fd)};
  }
}

void ChoiceFile::refresh(int fd) {
  const struct stat status = status_of(fd, path_);
  if (status.st_ino == inode_ && status.st_size == bytes_) return;
  choices_ = read();
  inode_ = status.st_ino;
  bytes_ = status.st_size;
}

}  // namespace estrain::algorithms

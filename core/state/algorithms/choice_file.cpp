#include "core/state/algorithms/choice_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files/file_lock.h"
#include "core/base/files/files.h"
#include "core/base/files/own_file.h"

namespace estrain::algorithms {
namespace {

constexpr auto kBetweenTries = std::chrono::milliseconds(2);
constexpr int64_t kLongestLeftAloneNs = 5'000'000;  // long enough for each waiting process to try again

struct stat status_of(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw system_error("cannot read " + path, errno);
  return status;
}

// Tells whether `path` still names the open file: a user may delete the file at any time.
bool stands_there(int fd, const std::string& path) {
  struct stat there {};
  return ::stat(path.c_str(), &there) == 0 && there.st_ino == status_of(fd, path).st_ino;
}

}  // namespace

Choices ChoiceFile::read() const { return Choices::from_text(read_file_if_present(path_).value_or(""), path_); }

Choices ChoiceFile::read_sound() const { return Choices::sound_from_text(read_file_if_present(path_).value_or("")); }

const Choices& ChoiceFile::look() {
  struct stat status {};
  try {
    if (::stat(path_.c_str(), &status) == 0) refresh(status);
  } catch (const Error&) {  // damaged, or a writer is just overwriting an unfinished line
  }
  return choices_;
}

ChoiceFile::Held::Held(ChoiceFile& file, UniqueFd lock)
    : file_(file), lock_(std::move(lock)), since_ns_(monotonic_ns()) {}

ChoiceFile::Held::~Held() {
  if (!lock_) return;
  const int64_t now = monotonic_ns();
  file_.left_alone_until_ns_ = now + std::min(now - since_ns_, kLongestLeftAloneNs);
}

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
  std::this_thread::sleep_for(std::chrono::nanoseconds(left_alone_until_ns_ - monotonic_ns()));
  for (;;) {
    UniqueFd fd = open_own_file(path_, O_RDWR | O_CREAT);
    while (!take_lock(fd.get(), path_)) {
      if (waiting) waiting();
      std::this_thread::sleep_for(kBetweenTries);
    }
    if (!stands_there(fd.get(), path_)) continue;
    refresh(status_of(fd.get(), path_));
    return {*this, std::move(fd)};
  }
}

// Takes `status` from before the read, so lines added meanwhile are read again.
void ChoiceFile::refresh(const struct stat& status) {
  if (status.st_ino == inode_ && status.st_size == bytes_) return;
  choices_ = read();
  inode_ = status.st_ino;
  bytes_ = status.st_size;
}

}  // namespace estrain::algorithms

#include "core/base/files/input_file.h"

#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/files/poll_set.h"

namespace estrain {
namespace {

const char* kind_of(mode_t mode) {
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  if (S_ISSOCK(mode)) return "a socket";
  return "something else";
}

Error not_a_file(const std::string& path, mode_t mode) {
  if (S_ISDIR(mode)) return system_error("cannot read " + path, EISDIR);
  return Error::make(Fault::io, "cannot read {}: {}, not a regular file", path, kind_of(mode))
      .advise("give a file; `ls -lL " + path + "` shows what is there");
}

// O_NONBLOCK opens a FIFO without waiting for a writer; the FIFO can then be refused.
UniqueFd open_anything(const std::string& path, int flags) {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (!fd && errno == ENXIO && ::stat(path.c_str(), &info) == 0) throw not_a_file(path, info.st_mode);  // a socket
  return fd;
}

mode_t mode_of(const UniqueFd& fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) throw system_error("cannot read " + path, errno);
  return info.st_mode;
}

Error too_large(const std::string& path, uint64_t most) {
  return Error::make(Fault::io, "cannot read {}: larger than the limit of {} bytes", path, most)
      .advise("is it the right file?");
}

// Appends the available bytes. False at the end.
bool read_some(int fd, const std::string& path, uint64_t most, std::string& text) {
  char buffer[1 << 16];
  const ssize_t got = ::read(fd, buffer, sizeof buffer);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (got < 0) throw system_error("cannot read " + path, errno);
  text.append(buffer, static_cast<size_t>(got));
  if (text.size() > most) throw too_large(path, most);
  return got > 0;
}

// Reading a pipe without a writer returns end of file. An end therefore counts only after the first byte.
std::string read_pipe(int fd, const std::string& path, uint64_t most, std::chrono::milliseconds patience) {
  std::string text;
  for (MonotonicTime deadline = MonotonicClock::now() + patience; MonotonicClock::now() < deadline;) {
    pollfd waiting{fd, POLLIN, 0};
    if (poll_within({&waiting, 1}, patience) == 0) continue;
    const size_t before = text.size();
    const bool more = read_some(fd, path, most, text);
    if (!more && (!text.empty() || (waiting.revents & POLLHUP) != 0)) return text;
    if (text.size() > before) deadline = MonotonicClock::now() + patience;
  }
  throw Error::make(Fault::io, "cannot read {}: a pipe without data for {} s", path, Seconds(patience).count())
      .advise("check that its writer still runs, or write to a file first");
}

}  // namespace

UniqueFd open_input(const std::string& path, int flags) {
  UniqueFd fd = open_anything(path, flags);
  if (!fd) throw system_error("cannot open " + path, errno);
  const mode_t mode = mode_of(fd, path);
  if (!S_ISREG(mode)) throw not_a_file(path, mode);
  return fd;
}

UniqueFd open_input_if_present(const std::string& path) {
  UniqueFd fd = open_anything(path, O_RDONLY);
  if (!fd && errno == ENOENT) return fd;
  if (!fd) throw system_error("cannot open " + path, errno);
  const mode_t mode = mode_of(fd, path);
  if (!S_ISREG(mode)) throw not_a_file(path, mode);
  return fd;
}

std::string read_whole(int fd, const std::string& path, uint64_t most) {
  std::string text;
  struct stat info {};
  if (::fstat(fd, &info) == 0 && info.st_size > 0) {
    if (static_cast<uint64_t>(info.st_size) > most) throw too_large(path, most);
    text.reserve(static_cast<size_t>(info.st_size));
  }
  while (read_some(fd, path, most, text)) {
  }
  return text;
}

Input read_file_or_pipe(const std::string& path, uint64_t most, std::chrono::milliseconds patience) {
  const UniqueFd fd = open_anything(path, O_RDONLY);
  if (!fd) throw system_error("cannot open " + path, errno);
  const mode_t mode = mode_of(fd, path);
  if (S_ISFIFO(mode)) return {read_pipe(fd.get(), path, most, patience), true};
  if (!S_ISREG(mode)) throw not_a_file(path, mode);
  return {read_whole(fd.get(), path, most), false};
}

}  // namespace estrain

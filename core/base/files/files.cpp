#include "core/base/files/files.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <utility>

#include "core/base/error.h"
#include "core/base/files/disk.h"
#include "core/base/files/input_file.h"
#include "core/base/files/own_file.h"

namespace estrain {
namespace {

void write_all(int fd, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw system_error("cannot write " + path, errno);
    content.remove_prefix(static_cast<size_t>(written));
  }
}

// The lock goes with the descriptor.
void lock_for_appending(int fd) {
  constexpr int kTries = 500;
  constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 1'000'000};
  for (int i = 0; i < kTries && ::flock(fd, LOCK_EX | LOCK_NB) != 0; ++i) {
    if (errno != EWOULDBLOCK && errno != EINTR) return;  // a file system without locks
    ::nanosleep(&kPause, nullptr);
  }
}

// The end of the last whole line of a file.
off_t end_of_lines(int fd, const std::string& path) {
  off_t end = ::lseek(fd, 0, SEEK_END);
  char buffer[4096];
  while (end > 0) {
    const off_t begin = std::max<off_t>(0, end - static_cast<off_t>(sizeof buffer));
    const ssize_t got = ::pread(fd, buffer, static_cast<size_t>(end - begin), begin);
    if (got < 0 && errno == EINTR) continue;
    if (got != end - begin) throw system_error("cannot read " + path, errno);
    const size_t newline = std::string_view(buffer, static_cast<size_t>(got)).rfind('\n');
    if (newline != std::string_view::npos) return begin + static_cast<off_t>(newline) + 1;
    end = begin;
  }
  return 0;
}

void append_line(const UniqueFd& fd, const std::string& path, std::string line) {
  const off_t begin = end_of_lines(fd.get(), path);
  try {
    if (::ftruncate(fd.get(), begin) != 0 || ::lseek(fd.get(), begin, SEEK_SET) < 0) {
      throw system_error("cannot write " + path, errno);
    }
    line += '\n';
    write_all(fd.get(), line, path);
  } catch (const Error&) {
    [[maybe_unused]] const int cut = ::ftruncate(fd.get(), begin);  // if even this fails, the next append drops the
                                                                    // fragment
    throw;
  }
}

}  // namespace

UniqueFd open_file(const std::string& path, int flags, unsigned mode) {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, mode));
  if (!fd) throw system_error("cannot open " + path, errno);
  return fd;
}

std::string read_file(const std::string& path) { return read_whole(open_input(path).get(), path); }

std::optional<std::string> read_file_if_present(const std::string& path) {
  const UniqueFd fd = open_input_if_present(path);
  if (!fd) return std::nullopt;
  return read_whole(fd.get(), path);
}

std::string text_if_readable(const std::string& path) {
  try {
    return read_file_if_present(path).value_or("");
  } catch (const Error&) {
    return "";
  }
}

void write_file_atomically(const std::string& path, std::string_view content) {
  write_file_atomically(path, content, real_disk());
}

void write_file_atomically(const std::string& path, std::string_view content, Disk& disk) {
  const std::string temporary = path + ".tmp";
  try {
    const UniqueFd fd = create_temporary(temporary);
    write_all(fd.get(), content, temporary);
    disk.sync_file(fd.get(), temporary);
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
  disk.rename(temporary, path);
  disk.sync_folder(std::filesystem::path(path).parent_path().string());
}

void append_line(const std::string& path, std::string line) {
  append_line(open_own_file(path, O_RDWR | O_CREAT), path, std::move(line));
}

void append_line_among_others(const std::string& path, std::string line) {
  const UniqueFd fd = open_own_file(path, O_RDWR | O_CREAT);
  lock_for_appending(fd.get());
  append_line(fd, path, std::move(line));
}

void make_folders(const std::string& path) {
  std::error_code failure;
  std::filesystem::create_directories(path, failure);
  if (failure) throw system_error("cannot create folder " + path, failure.value());
}

void sync_folder(const std::string& path) { real_disk().sync_folder(path); }

}  // namespace estrain

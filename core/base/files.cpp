#include "core/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "core/base/error.h"

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

std::string read_all(int fd, const std::string& path) {
  std::string content;
  struct stat info {};
  if (::fstat(fd, &info) == 0 && info.st_size > 0) content.reserve(static_cast<size_t>(info.st_size));
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error("cannot read " + path, errno);
    if (got == 0) return content;
    content.append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace

UniqueFd open_file(const std::string& path, int flags, unsigned mode) {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, mode));
  if (!fd) throw system_error("cannot open " + path, errno);
  return fd;
}

std::string read_file(const std::string& path) { return read_all(open_file(path, O_RDONLY).get(), path); }

std::optional<std::string> read_file_if_present(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd && errno == ENOENT) return std::nullopt;
  if (!fd) throw system_error("cannot open " + path, errno);
  return read_all(fd.get(), path);
}

void write_file_atomically(const std::string& path, std::string_view content) {
  const std::string temporary = path + ".tmp";
  try {
    UniqueFd fd = open_file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
    write_all(fd.get(), content, temporary);
    if (::fsync(fd.get()) != 0) throw system_error("cannot write " + temporary, errno);
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) throw system_error("cannot rename " + temporary, errno);
  const auto parent = std::filesystem::path(path).parent_path();
  sync_folder(parent.empty() ? "." : parent.string());
}

void append_to_file(const std::string& path, std::string_view content) {
  write_all(open_file(path, O_WRONLY | O_CREAT | O_APPEND).get(), content, path);
}

void make_folders(const std::string& path) {
  std::error_code failure;
  std::filesystem::create_directories(path, failure);
  if (failure) throw system_error("cannot create folder " + path, failure.value());
}

void sync_folder(const std::string& path) {
  const UniqueFd fd = open_file(path, O_RDONLY | O_DIRECTORY);
  if (::fsync(fd.get()) != 0) throw system_error("cannot sync folder " + path, errno);
}

}  // namespace estrain

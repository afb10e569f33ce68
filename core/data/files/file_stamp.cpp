#include "core/data/files/file_stamp.h"

namespace estrain::data {
namespace {

int64_t nanoseconds_of(const timespec& time) { return time.tv_sec * INT64_C(1'000'000'000) + time.tv_nsec; }

}  // namespace

FileStamp FileStamp::of(const struct stat& status) {
  return {status.st_dev, status.st_ino, static_cast<uint64_t>(status.st_size), nanoseconds_of(status.st_mtim),
          nanoseconds_of(status.st_ctim)};
}

std::optional<FileStamp> FileStamp::of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return of(status);
}

}  // namespace estrain::data

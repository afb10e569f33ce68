#include "core/state/checkpoint/bytes/byte_io.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>

namespace estrain::checkpoint {
namespace {

// A limit on the file's size cuts a direct write at any byte; the system then refuses the rest as not aligned.
int reason_of(int error_number, uint64_t end) {
  rlimit limit{};
  const bool is_cut = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < end;
  return error_number == EINVAL && is_cut ? EFBIG : error_number;
}

}  // namespace

void write_bytes(int fd, uint64_t offset, const std::byte* bytes, uint64_t size) {
  while (size > 0) {
    const ssize_t written = ::pwrite(fd, bytes, size, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw system_error("cannot write", reason_of(errno, offset + size));
    bytes += written;
    offset += static_cast<uint64_t>(written);
    size -= static_cast<uint64_t>(written);
  }
}

void read_bytes(int fd, uint64_t offset, std::byte* out, uint64_t size) {
  while (size > 0) {
    const ssize_t got = ::pread(fd, out, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error("cannot read", errno);
    if (got == 0) throw Error::make(Fault::corrupt, "truncated: ends before byte {}", offset + size);
    out += got;
    offset += static_cast<uint64_t>(got);
    size -= static_cast<uint64_t>(got);
  }
}

uint64_t length_of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw system_error("cannot read", errno);
  return static_cast<uint64_t>(status.st_size);
}

// An Error of the system ends with the system's text.
bool lacks_room(const Error& error) {
  return error.fault() == Fault::io &&
         std::ranges::any_of(std::initializer_list<int>{ENOSPC, EDQUOT, EFBIG},
                             [&](int number) { return error.message().ends_with(std::strerror(number)); });
}

}  // namespace estrain::checkpoint

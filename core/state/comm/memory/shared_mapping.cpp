#include "core/state/comm/memory/shared_mapping.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/error.h"

namespace estrain::comm {

UniqueFd SharedMapping::create(uint64_t bytes) {
  UniqueFd fd(::memfd_create("estrain", MFD_CLOEXEC));
  if (!fd) throw system_error("cannot create shared memory", errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) throw system_error("cannot size shared memory", errno);
  return fd;
}

SharedMapping::SharedMapping(int fd, uint64_t bytes) : fd_(fd) { map(bytes); }

SharedMapping::~SharedMapping() { unmap(); }

void SharedMapping::unmap() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
  base_ = nullptr;
}

void SharedMapping::map(uint64_t bytes) {
  unmap();
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_, 0);
  if (address == MAP_FAILED) throw system_error(fmt::format("cannot map {} bytes of shared memory", bytes), errno);
  base_ = static_cast<std::byte*>(address);
  bytes_ = bytes;
  ::madvise(base_, bytes_, MADV_HUGEPAGE);  // a wish: fewer page faults and misses where the system grants it
}

void SharedMapping::resize(uint64_t bytes) {
  if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) {
    throw system_error(fmt::format("cannot size shared memory to {} bytes", bytes), errno)
        .advise("lower the number of ESTs or raise the file size limit (ulimit -f)");
  }
  map(bytes);
}

void SharedMapping::release(uint64_t begin, uint64_t end) {
  if (begin < end)
    ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                static_cast<off_t>(end - begin));
}

}  // namespace estrain::comm

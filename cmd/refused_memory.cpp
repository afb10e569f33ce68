#include "cmd/refused_memory.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace estrain::cmd {
namespace {

std::atomic<uint64_t> refusals{0};
std::atomic<bool> speaks{false};

// Runs inside an allocation, so it must not allocate.
void say(const char* function) {
  const char text[] = ": Cannot allocate memory: the system refused memory to this process (see ulimit -v)\n";
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, function, std::strlen(function));
  written = ::write(STDERR_FILENO, text, sizeof text - 1);
}

[[maybe_unused]] void* counted(void* memory, size_t bytes, const char* function) {
  if (memory != nullptr || bytes == 0) [[likely]]
    return memory;
  const int why = errno;
  if (refusals.fetch_add(1) == 0 && speaks.load()) say(function);
  errno = why;
  return nullptr;
}

}  // namespace

const std::atomic<uint64_t>& watch_refused_memory() {
  speaks = true;
  return refusals;
}

}  // namespace estrain::cmd

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// glibc's own functions, by the names that it keeps for wrappers.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}

using estrain::cmd::counted;

extern "C" {

void* malloc(size_t bytes) noexcept { return counted(__libc_malloc(bytes), bytes, "malloc"); }

void* calloc(size_t count, size_t bytes) noexcept {
  return counted(__libc_calloc(count, bytes), count == 0 ? 0 : bytes, "calloc");
}

void* realloc(void* old, size_t bytes) noexcept { return counted(__libc_realloc(old, bytes), bytes, "realloc"); }

void* memalign(size_t alignment, size_t bytes) noexcept {
  return counted(__libc_memalign(alignment, bytes), bytes, "memalign");
}

void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return counted(__libc_memalign(alignment, bytes), bytes, "aligned_alloc");
}

int posix_memalign(void** memory, size_t alignment, size_t bytes) noexcept {
  if (alignment % sizeof(void*) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) return EINVAL;
  const int before = errno;
  void* const got = counted(__libc_memalign(alignment, bytes), bytes, "posix_memalign");
  errno = before;
  if (got == nullptr && bytes != 0) return ENOMEM;
  *memory = got;
  return 0;
}

// MKL and oneDNN map large buffers themselves.
void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  void* const memory = reinterpret_cast<void*>(::syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
  if (memory == MAP_FAILED && errno == ENOMEM) counted(nullptr, bytes, "mmap");
  return memory;
}

void* mmap64(void* address, size_t bytes, int protection, int flags, int file, off64_t offset) noexcept {
  return ::mmap(address, bytes, protection, flags, file, offset);
}

}  // extern "C"

#endif

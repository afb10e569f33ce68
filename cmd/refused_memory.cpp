#include "cmd/refused_memory.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

namespace estrain::cmd {
namespace {

std::atomic<uint64_t> refusals{0};
std::atomic<bool> speaks{false};

// Runs inside an allocation, so must not allocate.
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

namespace {

// The next definition after a wrapper: from a library in LD_PRELOAD, else from glibc. free() is not wrapped, so free()
// belongs to the same library.
template <typename Function>
class Behind {
 public:
  constexpr explicit Behind(const char* name) : name_(name) {}

  // Null during the look-up: the dynamic linker does without memory then.
  Function* get() {
    if (Function* const known = known_.load(std::memory_order_relaxed)) [[likely]]
      return known;
    if (looking_) return nullptr;
    looking_ = true;
    const auto found = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name_));
    looking_ = false;
    known_.store(found, std::memory_order_relaxed);
    return found;
  }

  template <typename... Arguments>
  auto operator()(Arguments... arguments) -> decltype(std::declval<Function*>()(arguments...)) {
    Function* const function = get();
    return function == nullptr ? decltype(function(arguments...)){} : function(arguments...);
  }

 private:
  const char* name_;
  std::atomic<Function*> known_{nullptr};
  static inline thread_local bool looking_ = false;
};

constinit Behind<void*(size_t)> next_malloc{"malloc"};
constinit Behind<void*(size_t, size_t)> next_calloc{"calloc"};
constinit Behind<void*(void*, size_t)> next_realloc{"realloc"};
constinit Behind<void*(size_t, size_t)> next_memalign{"memalign"}, next_aligned_alloc{"aligned_alloc"};
constinit Behind<int(void**, size_t, size_t)> next_posix_memalign{"posix_memalign"};

// A look-up inside dlerror() would free the text that dlerror() is about to return.
[[gnu::constructor]] void look_up_all() {
  const auto look_up = [](auto&... all) { (all.get(), ...); };
  look_up(next_malloc, next_calloc, next_realloc, next_memalign, next_aligned_alloc, next_posix_memalign);
}

}  // namespace

using estrain::cmd::counted;

extern "C" {

void* malloc(size_t bytes) noexcept { return counted(next_malloc(bytes), bytes, "malloc"); }

void* calloc(size_t count, size_t bytes) noexcept {
  return counted(next_calloc(count, bytes), count == 0 ? 0 : bytes, "calloc");
}

void* realloc(void* old, size_t bytes) noexcept { return counted(next_realloc(old, bytes), bytes, "realloc"); }

void* memalign(size_t alignment, size_t bytes) noexcept {
  return counted(next_memalign(alignment, bytes), bytes, "memalign");
}

void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return counted(next_aligned_alloc(alignment, bytes), bytes, "aligned_alloc");
}

int posix_memalign(void** memory, size_t alignment, size_t bytes) noexcept {
  const int before = errno;
  const int failure = next_posix_memalign(memory, alignment, bytes);
  if (failure == ENOMEM) counted(nullptr, bytes, "posix_memalign");
  errno = before;
  return failure;
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

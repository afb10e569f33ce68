#pragma once

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <fstream>

namespace estrain {

// During its lifetime, only this many more threads can start.
class RoomForThreads {
 public:
  explicit RoomForThreads(uint64_t threads) {
    constexpr size_t stack = size_t{1} << 30;
    ::pthread_getattr_default_np(&before_);
    pthread_attr_t large = before_;
    ::pthread_attr_setstacksize(&large, stack);
    ::pthread_setattr_default_np(&large);
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    ::getrlimit(RLIMIT_AS, &limit_);
    const rlimit low{pages * static_cast<uint64_t>(::getpagesize()) + threads * stack + stack / 2, limit_.rlim_max};
    ::setrlimit(RLIMIT_AS, &low);
  }
  ~RoomForThreads() {
    ::setrlimit(RLIMIT_AS, &limit_);
    ::pthread_setattr_default_np(&before_);
  }
  RoomForThreads(const RoomForThreads&) = delete;

 private:
  pthread_attr_t before_;
  rlimit limit_;
};

}  // namespace estrain

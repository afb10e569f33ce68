#include "core/state/comm/memory/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace estrain::comm {

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, std::chrono::milliseconds limit) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(limit);
  const timespec time{whole.count(), std::chrono::nanoseconds(limit - whole).count()};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &time, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace estrain::comm

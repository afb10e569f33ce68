#include "core/state/comm/memory/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace estrain::comm {

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, int milliseconds) {
  const timespec limit{milliseconds / 1000, (milliseconds % 1000) * 1'000'000L};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, milliseconds < 0 ? nullptr : &limit, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace estrain::comm

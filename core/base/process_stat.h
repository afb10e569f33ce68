#pragma once

#include <sys/types.h>

#include <cstdint>

namespace estrain {

// What /proc/PID/stat says of a process; all 0 where there is none.
struct ProcessStat {
  char state = '\0';             // 'T': stopped by a signal
  uint64_t processor_ticks = 0;  // that it has taken, its threads included, in user mode and in the kernel
};
ProcessStat process_stat(pid_t pid);

}  // namespace estrain

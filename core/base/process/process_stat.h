#pragma once

#include <sys/types.h>

#include <cstdint>

namespace estrain {

// Fields of /proc/PID/stat; all 0 without such a process.
struct ProcessStat {
  char state = '\0';             // 'T': stopped by a signal
  uint64_t processor_ticks = 0;  // CPU time of all threads, in user mode and in the kernel
};
ProcessStat process_stat(pid_t pid);

}  // namespace estrain

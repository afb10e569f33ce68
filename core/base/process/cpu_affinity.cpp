#include "core/base/process/cpu_affinity.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

namespace estrain {

int64_t cpus_of_affinity() {
  // The kernel refuses a mask that is too short for the machine's CPUs; Linux supports fewer than 2^16.
  for (size_t cpus = 1024; cpus <= (1 << 16); cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    const size_t bytes = CPU_ALLOC_SIZE(cpus);
    const int count = ::sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  return std::max<int64_t>(1, ::sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace estrain

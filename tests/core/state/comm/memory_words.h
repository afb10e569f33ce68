#pragma once
// The words of a job's shared memory, for tests that set or read the words without the protocols.

#include "core/state/comm/job_memory.h"

namespace estrain::comm {

struct MemoryWords {
  static MemoryHeader& of(const JobMemory& memory) { return memory.words(); }
};

inline MemoryHeader& words_of(const JobMemory& memory) { return MemoryWords::of(memory); }

}  // namespace estrain::comm

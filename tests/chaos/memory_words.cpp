// Prints, as JSON, the positions of the words that chaos runs watch in a job's shared memory (core/comm/job_memory.h):
// {"committed": [offset, bytes], …}. From these words a test sees the phase of a run.

#include <cstddef>
#include <cstdio>

#include "core/comm/job_memory.h"

namespace {

using estrain::comm::MemoryHeader;

template <typename Word>
void print(const char* name, size_t offset, const char* after) {
  std::printf("\"%s\": [%zu, %zu]%s", name, offset, sizeof(Word), after);
}

}  // namespace

#define WORD(name, after) print<decltype(MemoryHeader::name)>(#name, offsetof(MemoryHeader, name), after)

int main() {
  std::printf("{");
  WORD(ready, ", ");
  WORD(committed, ", ");
  WORD(pause_request, ", ");
  WORD(abort, ", ");
  WORD(stage_started, ", ");
  WORD(held_step, ", ");
  WORD(published, ", ");
  WORD(drained, "}\n");
  return 0;
}

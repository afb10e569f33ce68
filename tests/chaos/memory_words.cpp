// Prints where the words that chaos runs watch lie in the shared memory of a job
// (core/state/comm/memory/memory_header.h), as JSON:
// {"committed": [offset, bytes], …}. With them a test knows from outside in which phase a run is.

#include <cstddef>
#include <cstdio>

#include "core/state/comm/memory/memory_header.h"

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

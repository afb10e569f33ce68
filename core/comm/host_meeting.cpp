#include "core/comm/host_meeting.h"

#include <unistd.h>

#include "core/comm/futex.h"

namespace estrain::comm {

bool HostMeeting::ask(HostAsk what, Step step) {
  MemoryHeader& header = memory_.header();
  if (header.abort.load() != 0) return false;
  header.host_ask.store(what);
  header.host_step.store(step.value);
  const uint32_t sequence = header.host_asked.fetch_add(1) + 1;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t rung = ::write(doorbell_, &one, sizeof one);
  for (;;) {
    const uint32_t answered = header.host_answered.load();
    if (answered == sequence) return true;
    if (header.abort.load() != 0) return false;
    futex_wait(header.host_answered, answered, 100);
  }
}

HostRequest open_request(const JobMemory& memory) {
  const MemoryHeader& header = memory.header();
  const uint32_t asked = header.host_asked.load();
  if (asked == header.host_answered.load()) return {};
  return {header.host_ask.load(), Step(header.host_step.load()), asked};
}

void answer(JobMemory& memory, const HostRequest& request) {
  memory.header().host_answered.store(request.sequence);
  futex_wake_all(memory.header().host_answered);
}

}  // namespace estrain::comm

#include "core/state/comm/meetings/host_meeting.h"

#include "core/state/comm/meetings/bell.h"
#include "core/state/comm/memory/futex.h"

namespace estrain::comm {

bool HostMeeting::ask(HostAsk what, Step step, int bell) {
  if (words_.abort.load() != 0) return false;
  post(what, step, bell);
  return wait_answer();
}

void HostMeeting::post(HostAsk what, Step step, int bell) {
  words_.host_ask.store(static_cast<uint32_t>(what));
  words_.host_step.store(step.value);
  words_.host_asked.fetch_add(1);
  ring(bell);
}

bool HostMeeting::wait_answer() {
  const uint32_t sequence = words_.host_asked.load();
  for (;;) {
    const uint32_t answered = words_.host_answered.load();
    if (answered == sequence) return true;
    if (words_.abort.load() != 0) return false;
    futex_wait(words_.host_answered, answered, glance);
  }
}

HostRequest HostMeeting::open_request() const {
  const uint32_t asked = words_.host_asked.load();
  if (asked == words_.host_answered.load()) return {};
  return {static_cast<HostAsk>(words_.host_ask.load()), Step(words_.host_step.load()), asked};
}

void HostMeeting::agree(Step step, bool pause) {
  words_.pause_agreed.store(pause ? 1 : 0);
  words_.agreed.store(step.value);
}

void HostMeeting::answer(const HostRequest& request) {
  words_.host_answered.store(request.sequence);
  futex_wake_all(words_.host_answered);
}

void HostMeeting::open() {
  words_.host_answered.store(words_.host_asked.load());
  words_.pause_agreed.store(0);
}

void HostMeeting::wake_all() { futex_wake_all(words_.host_answered); }

}  // namespace estrain::comm

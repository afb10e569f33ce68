#include "core/state/comm/memory/pulse.h"

#include <algorithm>

namespace estrain::comm {

void WorkClock::note_step(int64_t now_ns) {
  const int64_t took = now_ns - words_.progress_ns.exchange(now_ns);
  if (took > words_.longest_step_ns.load()) words_.longest_step_ns.store(took);
}

void WorkClock::note_evaluation_batch(int64_t begun_ns, int64_t now_ns) {
  const int64_t took = now_ns - std::max(begun_ns, words_.progress_ns.load());
  int64_t longest = words_.longest_evaluation_ns.load();
  while (took > longest && !words_.longest_evaluation_ns.compare_exchange_weak(longest, took)) {
  }
}

void WorkClock::set_longest(const Longest& longest) {
  words_.longest_step_ns.store(longest.step_ns);
  words_.longest_evaluation_ns.store(longest.evaluation_batch_ns);
}

}  // namespace estrain::comm

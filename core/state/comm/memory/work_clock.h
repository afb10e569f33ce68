#pragma once
// The time of the job's last progress, and the longest times of its work on the devices in use, for judging silence.
// All times are monotonic nanoseconds. Workers write, the launcher judges; nothing of the state depends on these times.
// All accesses are sequentially consistent.

#include "core/state/comm/memory/memory_header.h"

namespace estrain::comm {

class WorkClock {
 public:
  explicit WorkClock(MemoryHeader& words) : words_(words) {}

  // A commit, an evaluation, a trace, the opening of a stage, the end of a wait for the scribe; or everybody stood
  // still until now.
  void note_progress(int64_t now_ns) { words_.progress_ns.store(now_ns); }
  // Notes a computed step: the step's time counts from the last progress on.
  void note_step(int64_t now_ns);
  // Notes a batch of an evaluation. A time in which all workers stood still does not count.
  void note_evaluation_batch(int64_t begun_ns, int64_t now_ns);

  // Since the devices changed; 0: none yet.
  struct Longest {
    int64_t step_ns = 0;
    int64_t evaluation_batch_ns = 0;
  };
  Longest longest() const { return {words_.longest_step_ns.load(), words_.longest_evaluation_ns.load()}; }
  void set_longest(const Longest& longest);

  // When the scribe last looked around; 0: not yet.
  int64_t scribe_beat_ns() const { return words_.scribe_beat_ns.load(); }
  void beat_scribe(int64_t now_ns) { words_.scribe_beat_ns.store(now_ns); }

 private:
  MemoryHeader& words_;
};

}  // namespace estrain::comm

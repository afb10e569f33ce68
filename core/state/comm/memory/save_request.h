#pragma once
// GPUs bring their state to shared memory: each worker brings a part. The last worker to arrive at a step's meeting
// asks; all see the same answer to wants(), since no worker leaves before the meeting is over.
//
// 1. One save at a time: the next save is asked for when all parts of this save have arrived.
// 2. The last part to arrive commits the step (commit_word.h).
// The step is stored last: a process that sees it sees the rest. All accesses are sequentially consistent.

#include "core/base/ids.h"
#include "core/state/comm/memory/memory_header.h"

namespace estrain::comm {

class SaveRequest {
 public:
  explicit SaveRequest(MemoryHeader& words) : words_(words) {}

  // waits: no worker continues before the state has arrived.
  void ask(Step step, bool waits) {
    words_.saved_parts.store(0);
    words_.save_waits.store(waits ? 1 : 0);
    words_.save_step.store(step.value);
  }
  bool wants(Step step) const { return words_.save_step.load() == step.value && words_.trained.load() == step.value; }
  bool waits() const { return words_.save_waits.load() != 0; }
  // Adds a part. Returns true for the last part.
  bool add_part(uint32_t of_parts) { return words_.saved_parts.fetch_add(1) + 1 == of_parts; }

 private:
  friend class StageControl;
  void clear() { words_.save_step.store(-1); }

  MemoryHeader& words_;
};

}  // namespace estrain::comm

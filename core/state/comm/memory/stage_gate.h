#pragma once
// Steers a stage, the time from one change of workers to the next. The launcher asks for the stage's end; the
// committing worker answers, and all workers leave their loop after the same step.
//
//   open -> (workers note that they have begun) -> ask_pause -> end_after(t) -> all have left
//                                              \-> abort: all leave at once, the step under way is done again
//
// 1. Only the last worker to arrive at a step's meeting calls end_after(), before any worker continues.
// 2. Every sleeper looks at `aborted` now and then.
// All accesses are sequentially consistent.

#include "core/base/ids.h"
#include "core/state/comm/memory/memory_header.h"

namespace estrain::comm {

class StageGate {
 public:
  explicit StageGate(MemoryHeader& words) : words_(words) {}

  // The launcher's.
  void ask_pause() { words_.pause_request.store(1); }
  // Workers in their loop for the first mini-batch of the stage, and the arrival of the last worker (monotonic ns).
  uint32_t started() const { return words_.stage_started.load(); }
  int64_t started_ns() const { return words_.stage_started_ns.load(); }
  // When the stage's last step was committed (monotonic ns).
  int64_t stopped_ns() const { return words_.stopped_ns.load(); }

  // The workers'.
  void note_started(int64_t now_ns) {
    words_.stage_started_ns.store(now_ns);
    words_.stage_started.fetch_add(1);
  }
  bool pause_asked() const { return words_.pause_request.load() != 0; }
  void end_after(Step step, int64_t now_ns) {
    words_.stopped_ns.store(now_ns);
    words_.stage_end.store(step.value);
  }
  bool ends_after(Step step) const { return words_.stage_end.load() == step.value; }

  // Everybody's: a worker was lost or hangs, or the stage is aborted for another reason.
  bool aborted() const { return words_.abort.load() != 0; }
  const std::atomic<uint32_t>& abort_word() const { return words_.abort; }

 private:
  friend class StageControl;  // opens and aborts the stage, for all words at once
  void open();
  void abort() { words_.abort.store(1); }

  MemoryHeader& words_;
};

}  // namespace estrain::comm

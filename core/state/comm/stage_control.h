#pragma once
// Begins and ends a stage in the shared memory, for a process that leads workers (the launcher, a courier, the scribe
// without a launcher). These steps concern several protocols at once.

#include <cstdint>

#include "core/state/comm/job_memory.h"

namespace estrain::comm {

class StageControl {
 public:
  explicit StageControl(const JobMemory& memory) : memory_(memory) {}

  // While no worker is in its loop: clears what steers a stage.
  void open();

  // Makes all workers leave their loop after the mini-batch at hand.
  void abort();

  // After a stage was aborted and nobody is in its loop: a step whose record is out but whose commit word was never
  // written is committed, a step that was under way leaves no trace. Returns how many trained steps are lost, and so
  // done again: 0 unless their state lay in a GPU's memory.
  int64_t repair();

 private:
  void publish_agreed();

  const JobMemory& memory_;
};

}  // namespace estrain::comm

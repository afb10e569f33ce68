#pragma once
// Begins and ends a stage in the shared memory, for a process that leads workers (the launcher, a courier, the scribe
// without a launcher). These steps concern several protocols at once.

#include <cstdint>

#include "core/state/comm/job_memory.h"

namespace estrain::comm {

class StageControl {
 public:
  explicit StageControl(const JobMemory& memory) : memory_(memory) {}

  // Clears the words for steering a stage. Call before the first worker enters the stage's loop.
  void open();

  // Makes all workers leave their loop after the mini-batch at hand, and wakes waiting workers. Returns at once.
  void abort();

  // Repairs after a stage was aborted, when no worker is in the loop, or while all workers wait at a meeting: commits a
  // step whose record is published but whose commit word was never written, and discards a step under way. Returns how
  // many trained steps are lost and must be trained again: 0 unless the state of these steps lay in a GPU's memory.
  int64_t repair();

 private:
  void publish_agreed();

  const JobMemory& memory_;
};

}  // namespace estrain::comm

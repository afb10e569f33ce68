#pragma once
// The state that a run starts from, written into one copy of the shared state.

#include "core/engine/train/job/job.h"
#include "core/state/checkpoint/checkpoint_file.h"

namespace estrain::train {

// Step 0: parameters and buffers as the model drew them, or from the spec's model.init file; optimizer slots zero; EST
// r's generator seeded with seed + r. The job must have been built with `draw_weights`, and not bound to memory yet.
// Throws Fault::mismatch or Fault::corrupt for an unfit file.
void write_first_state(Job& job, std::byte* state);

// Reads a checkpoint of this job into a copy of the state. If no GPU was at work before it, it has no CUDA streams:
// they start from their seeds. Throws as CheckpointFile::read_state.
void read_state(const checkpoint::CheckpointFile& file, const Job& job, std::byte* state);

}  // namespace estrain::train

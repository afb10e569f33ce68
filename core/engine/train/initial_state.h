#pragma once
// Writes the state from which a run starts into one copy of the shared state.

#include <optional>

#include "core/engine/train/job/job.h"
#include "core/state/checkpoint/checkpoint_file.h"
#include "core/state/checkpoint/models/model_file.h"

namespace estrain::train {

// Writes the state of step 0: parameters and buffers as the model drew them, or from the spec's model.init file;
// optimizer slots zero; EST r's generator seeded with seed + r. The job must have been built with `draw_weights`, and
// not bound to memory yet. Returns what came from the file. Throws the errors of checkpoint::read_model.
std::optional<checkpoint::TakenWeights> write_first_state(TrainingJob& job, std::byte* state);

// Reads a checkpoint of this job into a copy of the state. A checkpoint of a run without GPUs has no CUDA streams: the
// streams then start from their seeds. Throws the errors of CheckpointFile::read_state.
void read_state(const checkpoint::CheckpointFile& file, const TrainingJob& job, std::byte* state);

}  // namespace estrain::train

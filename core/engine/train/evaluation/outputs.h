#pragma once
// Writes the outputs of an evaluation's mini-batches for `estrain evaluate`
// (core/state/checkpoint/models/output_parts.h): those of the model, the targets, and the loss of each sample.

#include "core/engine/model/model.h"
#include "core/state/checkpoint/models/output_parts.h"

namespace estrain::train {

// The batch begins at sample `first`. Numbers of 16 bits are written as float32, booleans as uint8. Throws as
// OutputParts::put(); Fault::spec for complex numbers.
void write_outputs(const model::EvaluatedBatch& batch, int64_t first, checkpoint::OutputParts& parts);

}  // namespace estrain::train

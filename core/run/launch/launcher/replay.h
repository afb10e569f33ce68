#pragma once
// Runs a part of a run again, in a folder of its own, to see whether the bits are the same.

#include <string>

#include "core/base/ids.h"

namespace estrain::launch {

// Trains from the checkpoint of `run` at step `from` up to step `to`, with the run's spec and, stage by stage,
// the run's devices. Leaves a checkpoint of `to` and the fingerprints of the steps between in `folder`, which is
// made. The run is not touched. Throws Fault::usage if the checkpoint is missing, Fault::peer if the replay
// fails.
void replay(const std::string& run, Step from, Step to, const std::string& folder);

}  // namespace estrain::launch

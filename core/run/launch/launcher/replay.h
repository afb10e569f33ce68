#pragma once
// Runs a part of a run again, in a folder of its own, to see whether the bits are the same.

#include <string>

#include "core/base/ids.h"

namespace estrain::launch {

// Goes on from the checkpoint of `run` at step `from` up to step `to`, with the spec that the run had and, stage by
// stage, its devices, and leaves a checkpoint of `to` and the fingerprints of the steps between in `folder`, which is
// made. The run itself is not touched. Throws Fault::usage if the checkpoint is not there, Fault::peer if the replay
// fails.
void replay(const std::string& run, Step from, Step to, const std::string& folder);

}  // namespace estrain::launch

#pragma once
// Compares two runs, two checkpoints, or a run and a checkpoint, bit for bit.
//
// Over the common steps, compares the loss of every EST, the digest of every tensor, every tensor of checkpoints of the
// same step, and each checkpoint with its run's record of the step (which distinguishes a bit flipped on disk from a
// run that diverged). The first difference wins, in the order of DifferenceKind.

#include "core/inspect/verify/comparison.h"

namespace estrain::verify {

// Throws Fault::mismatch if the two have nothing in common to compare (for two runs: nothing but the start), and as
// open_subject.
Comparison compare(const std::string& a, const std::string& b);
Comparison compare(const Subject& a, const Subject& b);

}  // namespace estrain::verify

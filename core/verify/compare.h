#pragma once
// Compares two runs, two checkpoints, or a run and a checkpoint, bit for bit.
//
// Over the steps in common: the loss of every EST, the digest of every tensor, every tensor of checkpoints of the same
// step, and each checkpoint with what its run recorded at that step (which tells a bit flipped on disk from a run that
// went another way). The first difference wins, in the order of Evidence.

#include "core/verify/comparison.h"

namespace estrain::verify {

// Throws Fault::mismatch if the two have nothing in common to compare, of two runs nothing but their start, and what
// open_subject throws.
Comparison compare(const std::string& a, const std::string& b);
Comparison compare(const Subject& a, const Subject& b);

}  // namespace estrain::verify

#pragma once
// data.holdout: a part of the training samples is kept for evaluation where no files are named for evaluation.
//
// Of a class with n samples, round(holdout * n) are kept, halves upward, at least one and at most n - 1; a class with a
// single sample stays in training. The kept samples are the first ones of the class in the order randperm(samples,
// seed) (sampler.h), torch's permutation by job.seed. Training and evaluation read their samples in the order of the
// data, by the numbers of the data: augmentation, errors and the seeds of a user's Dataset go by these numbers. Nothing
// else affects the choice. Samples without known classes count as one class.
//
// Tokens and text have a rule of their own (tokens.h): the last part of the file.

#include <cstdint>
#include <vector>

#include "core/data/formats/format.h"

namespace estrain::data {

// The class of each sample where the classes are not known.
inline std::vector<int64_t> of_one_class(int64_t samples) { return std::vector<int64_t>(static_cast<size_t>(samples)); }

// Takes the kept samples off scan.train_samples, with a finding that counts them. `labels`: the class of each sample.
void note_held_out(DataScan& scan, const std::vector<int64_t>& labels, double fraction);

// Divides pair.train into training and evaluation; nothing happens for the fraction 0. Throws Fault::spec if no sample
// would be kept.
void hold_out(DataPair& pair, const std::vector<int64_t>& labels, double fraction, uint64_t seed);

}  // namespace estrain::data

#pragma once
// Data in the user's own code: data.file names a map-style Dataset of the user's Python, "data.py:train".
//
// A sample is a pair or a dictionary, decided by sample 0:
//
//   (image, class)         float32 [channels, height, width] and an integer
//   (numbers, class)       float32 [n] and an integer
//   (tokens, next tokens)  int64 [n] both
//   {name: array}          arrays by name, for a user's model, stacked as by DataLoader: a number is an array without
//                          dimensions, int64 or float64
//
// Arrays by name may be ragged: `lengths` of the Dataset is then a dictionary with the length of each sample of such an
// array. Mini-batches are padded as those of ragged HDF5 arrays (sampling/padded_array.h), with NAME_lengths and
// NAME_mask.
//
// Each sample is read with torch's, Python's and numpy's generators seeded from (job.seed, epoch, sample) alone, epoch
// -1 in evaluations (data_host.py, seed_of_sample()): a sample has the same bits whichever process reads the sample,
// before or after a resize.
//
// The identity of the data (files/identity.h): the files of the code, the modules that the code imports from its own
// folder or below, and for each set the number of samples, with the types and shapes of the arrays; of a ragged array
// the length of the longest sample.

#include "core/data/formats/format.h"

namespace estrain::data {

// FileName::what of the code of the training data, and of a module imported by the code, in front of the module's name.
inline constexpr const char* data_code_file = "the data's Python code";
inline constexpr std::string_view data_module = "data module ";

const Format& python_format();

}  // namespace estrain::data

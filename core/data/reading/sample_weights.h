#pragma once
// Reads the weights of samples for data.sampler = "weighted". data.sample_weights names
//
//   weights.npy       an array of one dimension of float32, float64, int32, int64 or uint8
//   train.h5:weights  a dataset of one dimension of numbers in an HDF5 file
//   weights.txt       any other file: numbers in text, separated by white space
//
// The file has a weight for each sample of the training data as stored, in their order, including the samples that
// data.holdout keeps for evaluation, whose weights are not used.

#include <vector>

#include "core/data/files/data_files.h"
#include "core/data/formats/dataset.h"
#include "core/job/spec/job_spec.h"

namespace estrain::data {

// Returns the file of the weights, or nothing if the section names no file.
std::vector<FileName> weight_files(const spec::DataSection& section);

// The weights of the samples of `train`, by their index. Throws Fault::corrupt, naming file and place, for what is not
// a number, is negative or is not finite, and if the sum is not a finite number above 0; Fault::mismatch if the numbers
// of weights and samples differ.
std::vector<double> read_sample_weights(const DataFile& file, const spec::DataSection& section, const Dataset& train);

}  // namespace estrain::data

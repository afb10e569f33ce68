#pragma once
// The files that a [data] section names.

#include <vector>

#include "core/data/files/data_files.h"
#include "core/job/spec/job_spec.h"

namespace estrain::data {

// In a fixed order for each format, training before test; empty for synthetic data.
//   idx         images, labels; of the test set too, where there is one
//   cifar10     the five training files, the test file; cifar100: one and one
//   hdf5, text, tokens, images, webdataset   one; a second one where data.test_path names it; hdf5: then the files to
//               which links and virtual datasets in these lead
//   voc         one; a second one where there is a data.test_list, the same if data.test_path names no other
// Throws Fault::spec where a needed key is empty, Fault::io where an idx folder lacks a standard name.
std::vector<FileName> file_names(const spec::DataSection& section);

}  // namespace estrain::data

#pragma once
// The files that a [data] section names: which they are, and each opened once. Data sets are made of what was opened
// here, and so is the data's identity (identity.h): nobody can put another file in between.

#include <string>
#include <vector>

#include "core/data/file_bytes.h"
#include "core/spec/job_spec.h"

namespace estrain::data {

struct FileName {
  std::string what;  // "training images": the same for a format wherever the files lie
  std::string path;
  bool as_it_is = false;  // not decompressed, whatever its name: HDF5's, which it reads by itself
};

struct DataFile {
  std::string what;
  std::string path;
  FileBytes content;
};

// In an order fixed for each format, training before test; none for synthetic data.
//   idx         images, labels; of the test set too, where there is one
//   cifar10     the five training files, the test file; cifar100: one and one
//   hdf5, text  one file; a second one where data.test_path names it
// Throws Fault::spec where a needed key is empty, Fault::io where an idx folder lacks a standard name.
std::vector<FileName> file_names(const spec::DataSection& section);

// Opens them all, compressed ones side by side. Throws Fault::io, Fault::corrupt.
std::vector<DataFile> open_files(const std::vector<FileName>& names);

}  // namespace estrain::data

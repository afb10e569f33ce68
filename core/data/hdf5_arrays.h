#pragma once
// Named arrays in an HDF5 file: one dataset for each, at the file's root, its first dimension the samples; integers and
// floating-point numbers of any size. Values are taken as they are. What torch has no type for is widened: uint16 to
// int32, uint32 and uint64 to int64.
//
// As with images (hdf5_images.h), an array that lies contiguous and native in the file is mapped, another one is read
// into memory once.

#include <memory>
#include <string>
#include <vector>

#include "core/data/data_files.h"
#include "core/data/dataset.h"

namespace estrain::data {

// Whether the file is one of images and labels (hdf5_images.h). Throws as read_hdf5_arrays().
bool holds_images(const DataFile& file);

// The arrays called `names`, in that order. Throws Fault::mismatch where one is absent (telling those that are there)
// or holds no such numbers, Fault::corrupt where they are not of one length, or damaged; Fault::io.
std::unique_ptr<Dataset> read_hdf5_arrays(const DataFile& file, const std::vector<std::string>& names);

// Throws Fault::mismatch naming the first array whose type or shape differs.
void require_same_arrays(const SampleShape& train, const SampleShape& test);

// "ids int64 [128], mask uint8 [128]"
std::string describe_arrays(const SampleShape& shape);

}  // namespace estrain::data

#pragma once
// Images in an HDF5 file: dataset `images`, (N, C, H, W), (N, H, W, C) or (N, H, W), uint8 or float32, and dataset
// `labels`, (N), any integer type. uint8 pixels are divided by 255 as for any image; float32 pixels are used unchanged.

#include <memory>

#include "core/data/files/data_files.h"
#include "core/data/pixels/image_source.h"
#include "core/formats/h5/group.h"
#include "core/job/spec/job_spec.h"

namespace estrain::data {

struct StoredImages {
  ImageLayout layout;
  bool is_interleaved = false;  // a pixel's channels stand together
};

// How `images` of the file `path` has them, by data.layout. Without it, a shape that would mean images of a few pixels
// with many channels is refused if it would mean usual ones the other way. Throws Fault::mismatch.
StoredImages stored_images(const h5::Dataset& images, spec::ImageOrder order, const std::string& path);

// Throws Fault::io, Fault::corrupt as data::open does; Fault::mismatch if a dataset is absent or of the wrong kind.
std::unique_ptr<ImageTable> read_hdf5_images(const DataFile& file, spec::ImageOrder order);

// All labels of the file `path`. Throws as read_hdf5_images().
std::vector<int64_t> hdf5_labels(const h5::Dataset& labels, const std::string& path);

// The dataset `images` or `labels`. Throws as read_hdf5_images().
h5::Dataset labelled_part(const h5::Group& root, const char* name, const std::string& path);

}  // namespace estrain::data

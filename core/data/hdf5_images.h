#pragma once
// Images in an HDF5 file: dataset `images`, (N, C, H, W) or (N, H, W), uint8 or float32, and dataset `labels`, (N), any
// integer type. uint8 pixels are divided by 255 like any image's; float32 pixels are taken as they are.
//
// Images that lie contiguous and native in the file are mapped; chunked or compressed ones are read into memory once,
// as random access to them would decompress a chunk per sample behind HDF5's global lock.

#include <memory>

#include "core/data/data_files.h"
#include "core/data/image_source.h"

namespace estrain::data {

// Throws Fault::io, Fault::corrupt as data::open does; Fault::mismatch where a dataset is absent or of the wrong kind.
// HDF5 opens the file once more by its path: Fault::io where that is not the file which was opened.
std::unique_ptr<ImageTable> read_hdf5_images(const DataFile& file);

}  // namespace estrain::data

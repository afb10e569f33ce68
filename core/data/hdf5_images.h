#pragma once
// Images in an HDF5 file: dataset `images`, (N, C, H, W) or (N, H, W), uint8 or float32, and dataset `labels`, (N), any
// integer type. uint8 pixels are divided by 255 like any image's; float32 pixels are taken as they are.
//
// Images that lie contiguous and native in the file are mapped; chunked or compressed ones are read into memory once,
// as random access to them would decompress a chunk per sample behind HDF5's global lock.

#include <memory>
#include <string>

#include "core/data/image_source.h"

namespace estrain::data {

// Throws Fault::io, Fault::corrupt as data::open does; Fault::mismatch where a dataset is absent or of the wrong kind.
std::unique_ptr<ImageTable> read_hdf5_images(const std::string& path);

}  // namespace estrain::data

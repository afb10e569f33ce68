#pragma once
// Images in an HDF5 file: dataset `images`, (N, C, H, W) or (N, H, W), uint8 or float32, and dataset `labels`, (N), any
// integer type. uint8 pixels are divided by 255 as for any image; float32 pixels are used unchanged.
//
// Images that are contiguous and in native format are mapped. Chunked or compressed ones are read into memory once,
// since random access would decompress a chunk per sample under HDF5's global lock.

#include <memory>

#include "core/data/files/data_files.h"
#include "core/data/pixels/image_source.h"

namespace estrain::data {

// Throws Fault::io, Fault::corrupt as data::open does; Fault::mismatch if a dataset is absent or of the wrong kind.
// HDF5 opens the file again by its path: throws Fault::io if that is a different file.
std::unique_ptr<ImageTable> read_hdf5_images(const DataFile& file);

}  // namespace estrain::data

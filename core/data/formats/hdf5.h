#pragma once
// Reads HDF5 files. A model takes a file in one of two ways: as pictures with classes, or as arrays by name
// (hdf5_arrays.h).
//
// Pictures: dataset `images`, (N, C, H, W), (N, H, W, C) or (N, H, W), uint8 or float32, and dataset `labels`, (N), any
// integer type. uint8 pixels are divided by 255 as for any image; float32 pixels are used unchanged.

#include <string>

#include "core/data/formats/format.h"

namespace estrain::data {

const Format& hdf5_format();

// Throws Fault::mismatch, naming the file's datasets, unless the file has both datasets of pictures.
void require_labelled_images(const std::string& path);

}  // namespace estrain::data

#pragma once
// Opens a file on disk by HDF5, without HDF5's locks: they fail on some network file systems, and every worker of a
// host reads the same data file. Internal to this folder.

#include <string>

#include "core/formats/h5/handle.h"

namespace estrain::h5 {

// `mode`: H5F_ACC_RDONLY or H5F_ACC_RDWR. Throws Fault::corrupt if HDF5 cannot open the file.
Handle open_file(const std::string& path, unsigned mode);

}  // namespace estrain::h5

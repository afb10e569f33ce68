#pragma once
// The HDF5 file driver of Image. Internal to this folder.

#include "core/formats/h5/image/image.h"

namespace estrain::h5 {

// A file access property list for files in `store`; at close, store->length is the end of the file.
Handle image_access_plan(Image::Store* store);

}  // namespace estrain::h5

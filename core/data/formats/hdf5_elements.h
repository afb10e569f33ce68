#pragma once
// The elements of a dataset of an HDF5 data file, in memory. Those that lie in a file as in memory are mapped, in
// whichever file they are (core/formats/h5/elsewhere.h). Others are read once: random access would decompress a chunk
// per sample under HDF5's global lock.

#include <cstddef>
#include <memory>

#include "core/data/files/data_files.h"
#include "core/formats/h5/dataset.h"

namespace estrain::data {

struct Elements {
  std::shared_ptr<const std::byte> owner;
  const std::byte* first = nullptr;
};

// All of them, as `as`. Throws as require_readable(), and Fault::corrupt where HDF5 cannot read them.
Elements elements_of(const h5::Dataset& data, h5::Type as, const DataFile& file);

// What can be told without reading them. `path`: the data file's. Throws Fault::corrupt if the dataset declares more
// than its files can hold, or reaches beyond the end of one; Fault::mismatch for a filter that cannot be had.
void require_readable(const h5::Dataset& data, const std::string& path);

}  // namespace estrain::data

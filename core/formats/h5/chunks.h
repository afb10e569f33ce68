#pragma once
// The chunks of a dataset as they are stored. HDF5 1.10 reads a whole chunk from what a chunk's filters return, also
// where they return less: a damaged file would have it read foreign memory. Internal to this folder.

#include <cstdint>
#include <string>

namespace estrain::h5 {

// Throws Fault::corrupt, naming the chunk, if a stored chunk of an open dataset gives fewer bytes than a chunk has.
// Looks at the chunks of `count` rows from row `first`; nothing is looked at unless the dataset is chunked. Knows the
// bytes behind no filter, shuffle, fletcher32, LZF, and deflate, which is inflated; chunks of other filters pass. HDF5
// finds a chunk without filters slowly: of thousands, the sum of their bytes is looked at. Chunks without filters are
// looked at in all rows. Returns whether no chunk is left to look at.
bool require_stored_chunks(int64_t dataset, int64_t first, int64_t count, const std::string& where);

}  // namespace estrain::h5

#pragma once
// Datasets whose elements are in further files.
//
//   external link        followed by this folder instead of HDF5: the linked file is looked for where HDF5 looks, first
//                        beside the file with the link, and must be a regular file
//   virtual dataset      read by HDF5, once every source is known to exist: HDF5 would fill in for an absent source
//   external storage     refused: HDF5 looks for the raw files from the current folder, whatever folder this is
//
// A link in an image (image.h) is not followed.

#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace estrain::h5 {

// Returns the files to which the datasets and groups at the root of a file lead, in the order of its children, each
// once, including files behind further files. Leaves out all but regular files. Empty if the file cannot be read.
std::vector<std::string> other_files(const std::string& path);

// The rest is internal to this folder.

// Makes HDF5 have external links followed as above, from now on. Once for a process.
void take_over_external_links();

// Returns why this thread did not follow a link since its last call.
std::optional<Error> take_link_refusal();

// Throws Fault::io or Fault::mismatch, naming the file, unless all sources of an open dataset exist. Must come before
// anything that makes HDF5 open the sources. `looks_at_chunks`: reads the sources, too, and throws Fault::corrupt for a
// chunk that is too short (chunks.h).
void require_sources(int64_t dataset, const std::string& where, bool looks_at_chunks = false);

}  // namespace estrain::h5

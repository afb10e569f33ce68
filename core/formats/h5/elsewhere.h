#pragma once
// Datasets whose elements are in other files.
//
//   external link        followed by this folder instead of HDF5: the other file is looked for where HDF5 does, beside
//                        the file with the link first, and must be a regular file
//   virtual dataset      HDF5 reads it, once every source is known to be there: it would fill in for one that is absent
//   external storage     refused: its raw files are looked for from the current folder, whatever that is
//
// A link in an image (image.h) is not followed.

#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace estrain::h5 {

// The files to which the datasets and groups at the root of a file lead, in the order of its children, each once; of
// those behind another one, too. Leaves out what is no regular file. Empty if the file cannot be read.
std::vector<std::string> other_files(const std::string& path);

// The rest is internal to this folder.

// From now on HDF5 has external links followed as above. Once for a process.
void take_over_external_links();

// Why a link was not followed by this thread, since it last asked.
std::optional<Error> take_link_refusal();

// Throws Fault::io or Fault::mismatch, naming the file, unless all sources of an open dataset are there. Must come
// before anything that makes HDF5 open them.
void require_sources(int64_t dataset, const std::string& where);

}  // namespace estrain::h5

#pragma once
// The filters through which chunks of a dataset were written: compression, checksums. Beside HDF5's own filters,
// estrain reads LZF, h5py's own filter. HDF5 would load any other filter from the folders in HDF5_PLUGIN_PATH, with
// code that then runs in this process: HDF5 loads filters only once allowed.

#include <cstdint>
#include <string>

namespace estrain::h5 {

// Lets this process load plugins from now on.
void allow_plugins();

// The rest is internal to this folder.

// For the start of a process: registers LZF, and loads no plugins.
void set_up_filters();

// Throws Fault::mismatch naming the first unavailable filter of an open dataset.
void require_filters(int64_t dataset, const std::string& where);

}  // namespace estrain::h5

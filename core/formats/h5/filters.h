#pragma once
// What chunks of a dataset went through when they were written: compression, checksums. Beside HDF5's own filters, LZF
// is read, h5py's own. HDF5 would load any other from the folders that HDF5_PLUGIN_PATH names, whose code then runs in
// this process: it does so only once it is allowed.

#include <cstdint>
#include <string>

namespace estrain::h5 {

// From now on this process loads plugins.
void allow_plugins();

// The rest is internal to this folder.

// For a process that begins: registers LZF, and loads no plugins.
void set_up_filters();

// Throws Fault::mismatch naming the first filter of an open dataset that cannot be had.
void require_filters(int64_t dataset, const std::string& where);

}  // namespace estrain::h5

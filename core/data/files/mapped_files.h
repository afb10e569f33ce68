#pragma once
// The names of data files that are mapped, for the case that one becomes shorter while it is in use. The kernel ends a
// process that reads beyond the end of a mapped file by SIGBUS; the same signal tells that /dev/shm is full.

#include <cstddef>
#include <string>

namespace estrain::data {

// From now on [address, address + size) shows the file; until forget_mapping(address).
void note_mapping(const void* address, size_t size, const std::string& path);
void forget_mapping(const void* address);

// From now on a SIGBUS at such an address writes a line that names the file to stderr, before it ends the process as it
// would without this. The fault table (core/run/faults/faults.toml) knows the line.
void name_shortened_files();

}  // namespace estrain::data

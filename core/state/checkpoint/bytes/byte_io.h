#pragma once
// Complete reads and writes on an open file, with pwrite and pread.

#include <cstddef>
#include <cstdint>

#include "core/base/error.h"

namespace estrain::checkpoint {

// Throws Fault::io.
void write_bytes(int fd, uint64_t offset, const std::byte* bytes, uint64_t size);

// Throws Fault::corrupt if the file is too short, Fault::io.
void read_bytes(int fd, uint64_t offset, std::byte* out, uint64_t size);

uint64_t length_of(int fd);  // throws Fault::io

// Tells whether a write failed because the disk, a quota or a limit on the file's size left no room.
bool lacks_room(const Error& error);

}  // namespace estrain::checkpoint

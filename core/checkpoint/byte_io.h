#pragma once
// Bytes of an open file: pwrite and pread until all is done.

#include <cstddef>
#include <cstdint>

namespace estrain::checkpoint {

// Throws Fault::io.
void write_bytes(int fd, uint64_t offset, const std::byte* bytes, uint64_t size);

// Throws Fault::corrupt where the file ends before, Fault::io.
void read_bytes(int fd, uint64_t offset, std::byte* out, uint64_t size);

uint64_t length_of(int fd);  // throws Fault::io

}  // namespace estrain::checkpoint

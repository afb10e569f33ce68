#pragma once
// Keeps the names of mapped data files, for the case that a file becomes shorter during use. The kernel ends a process
// that reads beyond the end of a mapped file by SIGBUS; a full /dev/shm causes the same signal.

#include <cstddef>
#include <span>
#include <string>

namespace estrain::data {

// From now on [address, address + size) shows the file; until forget_mapping(address).
void note_mapping(const void* address, size_t size, const std::string& path);
void forget_mapping(const void* address);

// Takes the pages of a part of a mapped file (FileBytes::map) out of this process's memory. The part stays readable:
// the kernel maps its pages anew, most often without a read of the disk. Other memory would lose its content.
void release_pages(std::span<const std::byte> part);

// From now on a SIGBUS at a mapped address first writes a line with the name of the file to stderr, then ends the
// process as before this call. The fault table (core/run/faults/faults.toml) knows the line.
void name_shortened_files();

}  // namespace estrain::data

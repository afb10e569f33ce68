#pragma once
// Files in memory without a name: text that a process passes to another by descriptor.

#include <string>
#include <string_view>

#include "core/base/files/unique_fd.h"

namespace estrain {

// Makes a file with this content, to be read from the beginning; an exec closes the file. `name` is for readers of
// /proc. Throws Fault::io, as all functions here.
UniqueFd memory_file(const char* name, std::string_view content);

// Seals the file: no process can change the file any more.
void seal_memory_file(int fd);

// Returns all of the file, wherever the descriptor's position is.
std::string read_memory_file(int fd);

}  // namespace estrain

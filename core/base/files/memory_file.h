#pragma once
// Files in memory without a name: text that one process passes to another by descriptor.

#include <string>
#include <string_view>

#include "core/base/files/unique_fd.h"

namespace estrain {

// With this content, to be read from its beginning; an exec closes it. `name` is for those who look into /proc. Throws
// Fault::io, as the others do.
UniqueFd memory_file(const char* name, std::string_view content);

// No process can change the file any more.
void seal_memory_file(int fd);

// All of it, wherever the descriptor's position is.
std::string read_memory_file(int fd);

}  // namespace estrain

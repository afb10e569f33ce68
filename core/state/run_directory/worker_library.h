#pragma once
// The library loaded by workers.

#include <string>

namespace estrain::run_directory {

// Returns the library's path: beside the program.
std::string worker_library();

}  // namespace estrain::run_directory

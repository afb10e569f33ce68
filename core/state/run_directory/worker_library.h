#pragma once
// The library that workers load.

#include <string>

namespace estrain::run_directory {

// Its path: beside the program.
std::string worker_library();

}  // namespace estrain::run_directory

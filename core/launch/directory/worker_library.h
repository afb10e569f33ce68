#pragma once
// The library that workers load.

#include <string>

namespace estrain::launch {

// Its path: beside the program.
std::string worker_library();

}  // namespace estrain::launch

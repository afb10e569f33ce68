#pragma once
// The library with all code that needs LibTorch. Processes that train or try a model load the library.

#include <string>

namespace estrain::cmd {

// The folder of the library and of device libraries: beside the program.
std::string library_folder();

// Returns the path to load the library from. `descriptor`: the library's file, opened by the launcher when the job
// began: the job keeps this library; -1: the file beside the program. While the descriptor's file is still the file
// beside the program, the path is the path beside the program, from which the dynamic loader finds other libraries
// ($ORIGIN).
std::string worker_library_path(int descriptor);

// Returns the library's function `name`. Throws Fault::io if the library cannot be loaded.
void* worker_library_function(const char* name, int descriptor = -1);

// Ends the process without running LibTorch's slow destructors.
[[noreturn]] void leave(int code);

}  // namespace estrain::cmd

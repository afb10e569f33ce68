#pragma once
// The library with all code that needs LibTorch. Processes that train or try a model load it.

#include <string>

namespace estrain::cmd {

// The folder of the library and of device libraries: beside the program.
std::string library_folder();

// The library's function `name`. `descriptor` is the file that the launcher opened when the job began, so that a job
// keeps its library; -1: the file beside the program. Throws Fault::io if it cannot be loaded.
void* worker_library_function(const char* name, int descriptor = -1);

// Ends the process without running LibTorch's slow destructors.
[[noreturn]] void leave(int code);

}  // namespace estrain::cmd

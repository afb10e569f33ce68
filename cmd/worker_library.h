#pragma once
// The library that holds all that needs LibTorch, loaded by the processes that train or try a model.

#include <string>

namespace estrain::cmd {

// Where it lies, and what is loaded for devices: beside the program.
std::string library_folder();

// Its function `name`. `descriptor`: of the library where a launcher opened it when the job began, so that a job goes
// on with the one it began with; -1: the one beside the program. Throws Fault::io where it cannot be loaded.
void* worker_library_function(const char* name, int descriptor = -1);

// Ends the process without LibTorch's destructors, which take longer than they are worth.
[[noreturn]] void leave(int code);

}  // namespace estrain::cmd

#pragma once
// Identifies the build of a program or library in this process, by the build-id note (elf(5)) from the linker: a digest
// of everything linked. The note is read from memory, and identifies the running code even if the file was replaced.

#include <cstdint>
#include <string_view>

namespace estrain {

// Return the first 64 bits of the note; 0 without a note, or if no program or library in this process is meant.
uint64_t build_id_of_program();
uint64_t build_id_of_code(const void* address);            // of the program or library that holds the address
uint64_t build_id_of_library(std::string_view file_name);  // of a loaded library: "libtorch_cpu.so", without a folder

}  // namespace estrain

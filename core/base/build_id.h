#pragma once
// Which build of a program or library this process runs, by the build-id note (elf(5)) that the linker puts into it: a
// digest of all that was linked. Read from memory, it is that of what runs, whatever lies at its path by now.

#include <cstdint>
#include <string_view>

namespace estrain {

// 64 bits of the note; 0 where there is none.
uint64_t build_id_of_program();
uint64_t build_id_of_code(const void* address);            // of the program or library that holds the address
uint64_t build_id_of_library(std::string_view file_name);  // of a loaded library, by the last part of its path

}  // namespace estrain

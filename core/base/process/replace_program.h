#pragma once
// Continues as another program, or as a new start of this program, under the same process id.

#include <string>
#include <vector>

namespace estrain {

// `arguments`: as the program gets the arguments, the program's name first. Descriptors without close-on-exec stay
// open. Returns only by an exception: Fault::io.
[[noreturn]] void replace_program(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace estrain

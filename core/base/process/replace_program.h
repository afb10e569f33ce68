#pragma once
// Continues as another program, or as a new start of this one, under the same process id.

#include <string>
#include <vector>

namespace estrain {

// `arguments`: as the program gets them, its name first. Descriptors without close-on-exec stay open. Returns only by
// an exception: Fault::io.
[[noreturn]] void replace_program(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace estrain

#pragma once
// Continues as another program, or as a new start of this program, under the same process id.

#include <string>
#include <vector>

namespace estrain {

// `program`: a path, not looked up in PATH. `arguments`: the new argv, the program's name first. The environment and
// descriptors without close-on-exec stay; destructors do not run. Throws Fault::io if the program cannot be executed.
[[noreturn]] void replace_program(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace estrain

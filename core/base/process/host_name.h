#pragma once
// This host's own name.

#include <string>

namespace estrain {

std::string host_name();  // as told by gethostname; empty: no answer

}  // namespace estrain

#pragma once
// This host's own name.

#include <string>

namespace estrain {

std::string host_name();  // as gethostname tells it; empty: it does not

}  // namespace estrain

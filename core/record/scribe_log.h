#pragma once

#include <cstdio>
#include <string>

namespace estrain::record {

// A line for scribe.log. That may lie on the full disk, too: what it has no room for is left out, and no exception.
inline void write_log(const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }

}  // namespace estrain::record

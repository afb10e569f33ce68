#pragma once

#include <cstdio>
#include <string>

namespace estrain::record {

// Writes a line to scribe.log. The log may also be on the full disk: a line that does not fit is dropped without an
// exception.
inline void write_log(const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }

}  // namespace estrain::record

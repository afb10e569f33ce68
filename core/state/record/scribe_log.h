#pragma once

#include <cstdio>
#include <string>

namespace estrain::record {

// Writes a line to scribe.log. The log may be on the full disk too: a line without space is dropped.
inline void write_log(const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }

}  // namespace estrain::record

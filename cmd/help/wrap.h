#pragma once
// Text broken into lines.

#include <cstddef>
#include <string>
#include <string_view>

namespace estrain::help {

struct Wrapping {
  size_t indent = 0;   // spaces before every line
  size_t width = 100;  // of a line; a longer word stands alone
};

// Lines of whole words, each ended by a line feed. Line feeds of the text stay.
std::string wrapped(std::string_view text, const Wrapping& wrapping);

}  // namespace estrain::help

#pragma once
// Small pictures made of characters.

#include <cstdint>
#include <string>
#include <vector>

namespace estrain::watch {

// A column for each value, from the lowest to the highest of them in eight heights; all the same: half way up. ASCII
// signs where the terminal has no block elements.
std::string sparkline(const std::vector<double>& values, bool blocks);

// `filled` of `columns` cells.
std::string bar(size_t filled, size_t columns, bool blocks);

}  // namespace estrain::watch

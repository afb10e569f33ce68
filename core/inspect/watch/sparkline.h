#pragma once
// Small charts made of characters.

#include <cstdint>
#include <string>
#include <vector>

namespace estrain::watch {

// One column per value, in eight heights from the lowest to the highest value; half height if all are equal. Uses ASCII
// if the terminal has no block elements.
std::string sparkline(const std::vector<double>& values, bool blocks);

// A bar with `filled` of `columns` cells.
std::string bar(size_t filled, size_t columns, bool blocks);

}  // namespace estrain::watch

#pragma once
// A number with its noun: "1 EST", "2 ESTs".

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace estrain {

// Returns the number and the noun, with an "s" for every number but 1.
template <typename Number>
std::string counted(Number number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

}  // namespace estrain

#pragma once
// How deep a TOML document is, before it is parsed: the parser, its values and ours take stack for every level, and a
// dotted key of 60,000 parts is as many levels.

#include <cstdint>
#include <optional>
#include <string_view>

namespace estrain::toml {

constexpr int kMostKeyParts = 16;    // a.b.c has 3
constexpr int kDeepestNesting = 16;  // [[1]] has 2

// Where in a text something is.
struct TextPlace {
  uint32_t line = 1, column = 1;  // from 1, in bytes
};

// The first place at which a key has more parts, or values are nested deeper, than that. Of text that is not TOML the
// answer may be either; what this lets pass has no more than kMostKeyParts * (kDeepestNesting + 1) levels.
std::optional<TextPlace> too_deep(std::string_view text);

}  // namespace estrain::toml

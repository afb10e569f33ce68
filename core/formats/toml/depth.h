#pragma once
// Limits the depth of a TOML document before it is parsed: the parser, its values and ours use stack for every level,
// and a dotted key of 60,000 parts has as many levels.

#include <cstdint>
#include <optional>
#include <string_view>

namespace estrain::toml {

constexpr int kMostKeyParts = 16;    // a.b.c has 3
constexpr int kDeepestNesting = 16;  // [[1]] has 2

// A position in a text.
struct TextPlace {
  uint32_t line = 1, column = 1;  // from 1, in bytes
};

// Returns the first place at which a key has more parts, or values are nested more deeply, than these limits. For text
// other than TOML the answer may be wrong, but accepted text has at most kMostKeyParts * (kDeepestNesting + 1) levels.
std::optional<TextPlace> too_deep(std::string_view text);

}  // namespace estrain::toml

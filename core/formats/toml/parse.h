#pragma once
// TOML text -> Value. Only this header's .cpp knows the TOML library (toml++).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/formats/toml/value.h"

namespace estrain::toml {

// The limits of a TOML document's depth, which is checked before parsing: the parser, its values and ours use stack for
// every level, and a dotted key of 60,000 parts has as many levels.
constexpr int kMostKeyParts = 16;    // a.b.c has 3
constexpr int kDeepestNesting = 16;  // [[1]] has 2

// A position in a text.
struct TextPlace {
  uint32_t line = 1, column = 1;  // from 1, in bytes
};

// Returns the first place at which a key has more parts, or values are nested more deeply, than these limits. For text
// other than TOML the answer may be wrong, but accepted text has at most kMostKeyParts * (kDeepestNesting + 1) levels.
std::optional<TextPlace> too_deep(std::string_view text);

// Returns the document as a table. Throws Fault::spec "source:line:column: not valid TOML: ..." at the first mistake,
// including a key given twice, text other than UTF-8, and nesting deeper than these limits.
Value parse(std::string_view text, const std::string& source_name);

// Stores a "dotted.key=value" in `document`, creating tables as needed and replacing an existing value. The value is
// read as TOML ("16", "[0.5, 0.5]", "{ a = 1 }"), otherwise as a string ("adam", "/data/set"). The value's location is
// "--set <argument>". Throws Fault::usage for a missing '=', an empty key part or text other than UTF-8, Fault::spec if
// the path leads through a value other than a table.
void apply_override(Value& document, std::string_view argument);

}  // namespace estrain::toml

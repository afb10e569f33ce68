#pragma once
// TOML text -> Value. Only this header's .cpp knows the TOML library (toml++).

#include <string>
#include <string_view>

#include "core/formats/toml/value.h"

namespace estrain::toml {

// Returns the document as a table. Throws Fault::spec "source:line:column: not valid TOML: ..." at the first mistake,
// including a key given twice, text other than UTF-8, and nesting deeper than depth.h allows.
Value parse(std::string_view text, const std::string& source_name);

// Stores a "dotted.key=value" in `document`, creating tables as needed and replacing an existing value. The value is
// read as TOML ("16", "[0.5, 0.5]", "{ a = 1 }"), otherwise as a string ("adam", "/data/set"). The value's location is
// "--set <argument>". Throws Fault::usage for a missing '=', an empty key part or text other than UTF-8, Fault::spec if
// the path leads through a value other than a table.
void apply_override(Value& document, std::string_view argument);

// Returns whether `text` can be stored in a TOML file (is UTF-8).
bool representable(std::string_view text);

}  // namespace estrain::toml

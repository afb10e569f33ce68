#pragma once
// TOML text -> Value. The only file that knows the TOML library (toml++) is this header's .cpp.

#include <string>
#include <string_view>

#include "core/toml/value.h"

namespace estrain::toml {

// The document as a table. Throws Fault::spec "source:line:column: not valid TOML: ..." at the first mistake, which
// includes a key given twice, text that is not UTF-8, and what is deeper than depth.h lets pass.
Value parse(std::string_view text, const std::string& source_name);

// Puts one "dotted.key=value" into `document`, making tables on the way and replacing what stands there. The value is
// read as TOML ("16", "[0.5, 0.5]", "{ a = 1 }"); what is no TOML value is a string ("adam", "/data/set"). What it puts
// in has the location "--set <argument>". Throws Fault::usage where there is no '=', a key part is empty or the text is
// not UTF-8, Fault::spec where the path goes through a value that is no table.
void apply_override(Value& document, std::string_view argument);

// Whether `text` can stand in a TOML file (is UTF-8).
bool representable(std::string_view text);

}  // namespace estrain::toml

#pragma once
// Escapes text for an HTML page. Names, paths and messages of a run are untrusted, and must not act as markup, in text
// or in a quoted attribute.

#include <string>
#include <string_view>

namespace estrain {

// Writes & < > " ' as entities, and the rest as visible() does.
std::string html_escaped(std::string_view text);

}  // namespace estrain

#pragma once
// Escapes text for an HTML page. Names, paths and messages of a run are untrusted: they must not act as markup, in text
// or in a quoted attribute.

#include <string>
#include <string_view>

namespace estrain {

// Writes & < > " ' as entities. Invalid UTF-8, control characters and characters that change the text direction become
// U+FFFD; line feeds stay.
std::string html_escaped(std::string_view text);

}  // namespace estrain

#pragma once
// Text for an HTML page. Names, paths and messages of a run are somebody else's text: nothing of them may act as
// markup, in a text or in a quoted attribute.

#include <string>
#include <string_view>

namespace estrain {

// & < > " ' as entities. What is not UTF-8, control characters, and those that change the direction of what follows
// become U+FFFD; line feeds stay.
std::string html_escaped(std::string_view text);

}  // namespace estrain

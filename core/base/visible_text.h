#pragma once
// Text for a terminal, a log or a page. Names, paths and messages of users, runs and other hosts are untrusted: when
// shown, they must move no cursor, change no colour and begin no line. Code prints untrusted text by these functions.

#include <string>
#include <string_view>

namespace estrain {

// Replaces invalid UTF-8, control characters (a carriage return too) and characters that change the text direction by
// U+FFFD. Line feeds and tabs stay: visible() is for text of several lines.
std::string visible(std::string_view text);

// Does the same for text within a line: a line feed or a tab becomes a space.
std::string visible_in_line(std::string_view text);

// Makes a written JSON document visible. `json` is valid UTF-8, with all characters below U+0020 escaped within
// strings, as Json::dump() writes. Escapes control and direction characters from U+007F on (\u009b): a parser gets the
// unchanged text. White space between values stays.
std::string visible_json(std::string json);

// Returns whether the text is UTF-8, which TOML and JSON need: without surrogates and overlong forms.
bool is_utf8(std::string_view text);

// Escapes text for an HTML page, in which untrusted text must not act as markup, in text or in a quoted attribute.
// Writes & < > " ' as entities, and the rest as visible() does.
std::string html_escaped(std::string_view text);

}  // namespace estrain

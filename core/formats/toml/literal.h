#pragma once
// Values as TOML text; parsing the text gives the same bits.

#include <cstdint>
#include <string>
#include <string_view>

namespace estrain::toml {

std::string literal(std::string_view text);  // a basic string on one line; `text` must be UTF-8
std::string literal(int64_t number);
std::string literal(
    double number);  // the shortest text that reads back as the same double; always with '.', 'e', inf or nan
std::string literal(bool flag);
inline std::string literal(const std::string& text) { return literal(std::string_view(text)); }
inline std::string literal(const char* text) { return literal(std::string_view(text)); }  // would otherwise be a bool

}  // namespace estrain::toml

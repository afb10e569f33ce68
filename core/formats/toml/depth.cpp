#include "core/formats/toml/depth.h"

#include <algorithm>

namespace estrain::toml {
namespace {

bool ends_line(char c) { return c == '\n' || c == '\r'; }

// Returns the position after the string that begins at `at`. A single-line string ends at the latest with the line.
size_t behind_string(std::string_view text, size_t at) {
  const char quote = text[at];
  const std::string_view fence = quote == '"' ? R"(""")" : "'''";
  const bool escapes = quote == '"', many_lines = text.substr(at, 3) == fence;
  for (size_t i = at + (many_lines ? 3 : 1); i < text.size(); ++i) {
    if (escapes && text[i] == '\\' && (many_lines || i + 1 >= text.size() || !ends_line(text[i + 1]))) {
      ++i;
    } else if (!many_lines && (text[i] == quote || ends_line(text[i]))) {
      return text[i] == quote ? i + 1 : i;
    } else if (many_lines && text.substr(i, 3) == fence) {
      size_t end = i + 3;
      while (end < std::min(text.size(), i + 5) && text[end] == quote)
        ++end;  // two quotes may precede the closing
                // fence
      return end;
    }
  }
  return text.size();
}

size_t behind_comment(std::string_view text, size_t at) {
  while (at < text.size() && !ends_line(text[at])) ++at;
  return at;
}

TextPlace place_of(std::string_view text, size_t at) {
  const std::string_view before = text.substr(0, at);
  const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  return {static_cast<uint32_t>(1 + std::ranges::count(before, '\n')), static_cast<uint32_t>(1 + at - line_begin)};
}

}  // namespace

std::optional<TextPlace> too_deep(std::string_view text) {
  int parts = 1, open = 0;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\'') {
      i = behind_string(text, i);
      continue;
    }
    if (c == '#') {
      i = behind_comment(text, i);
      continue;
    }
    if (c == '.' && ++parts > kMostKeyParts) return place_of(text, i);
    if (c == '[' || c == '{') {
      if (++open > kDeepestNesting) return place_of(text, i);
    }
    if (c == ']' || c == '}') open = std::max(0, open - 1);
    if (ends_line(c) || std::string_view("=,[]{}").find(c) != std::string_view::npos) parts = 1;
    ++i;
  }
  return std::nullopt;
}

}  // namespace estrain::toml

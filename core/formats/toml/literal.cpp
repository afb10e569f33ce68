#include "core/formats/toml/literal.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace estrain::toml {
namespace {

std::string escaped(char c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\t':
      return "\\t";
    case '\n':
      return "\\n";
    case '\f':
      return "\\f";
    case '\r':
      return "\\r";
    default:
      break;
  }
  const auto code = static_cast<unsigned char>(c);
  return code < 0x20 || code == 0x7f ? fmt::format("\\u{:04X}", code) : std::string(1, c);
}

}  // namespace

std::string literal(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) quoted += escaped(c);
  return quoted + '"';
}

std::string literal(int64_t number) { return fmt::format("{}", number); }

std::string literal(double number) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  const std::string text(digits.data(), end);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;  // 'n': inf, nan
}

std::string literal(bool flag) { return flag ? "true" : "false"; }

}  // namespace estrain::toml

#include "core/base/visible_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace estrain {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Character {
  uint32_t code = 0xFFFD;
  size_t bytes = 1;
};

// Returns the length of a character in bytes, by the first byte; 0: not a first byte.
size_t length_by_first(uint8_t first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

// Returns the first character of `text`; for an invalid character a byte that becomes U+FFFD.
Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const size_t bytes = length_by_first(byte(0));
  if (bytes == 0 || bytes > text.size()) return {};
  if (bytes == 1) return {byte(0), 1};
  uint32_t code = byte(0) & (0xFFu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < least[bytes] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return {};
  return {code, bytes};
}

bool is_shown(uint32_t code) {
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  const bool direction = (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return !control && !direction && code != 0xFFFE && code != 0xFFFF;
}

}  // namespace

std::string visible(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character next = first_character(text);
    const bool breaks = next.code == '\n' || next.code == '\t';
    const bool is_sound = next.code != 0xFFFD && (breaks || is_shown(next.code));
    out += is_sound ? text.substr(0, next.bytes) : kReplacement;
    text.remove_prefix(next.bytes);
  }
  return out;
}

std::string visible_in_line(std::string_view text) {
  std::string out = visible(text);
  std::ranges::replace_if(
      out, [](char byte) { return byte == '\n' || byte == '\t'; }, ' ');
  return out;
}

// In JSON, such characters are within strings only. Below 0x20 the writer has escaped the characters; a line feed may
// stand between values.
std::string visible_json(std::string json) {
  if (std::ranges::none_of(json, [](char byte) { return static_cast<uint8_t>(byte) >= 0x7F; })) return json;
  std::string out;
  out.reserve(json.size());
  for (std::string_view rest = json; !rest.empty();) {
    const Character next = first_character(rest);
    const bool is_plain = next.code < 0x20 || is_shown(next.code);
    out += is_plain ? std::string(rest.substr(0, next.bytes)) : fmt::format("\\u{:04x}", next.code);
    rest.remove_prefix(next.bytes);
  }
  return out;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Character next = first_character(text);
    if (next.code == 0xFFFD && next.bytes == 1) return false;
    text.remove_prefix(next.bytes);
  }
  return true;
}

std::string html_escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char byte : visible(text)) {
    if (byte == '&')
      out += "&amp;";
    else if (byte == '<')
      out += "&lt;";
    else if (byte == '>')
      out += "&gt;";
    else if (byte == '"')
      out += "&quot;";
    else if (byte == '\'')
      out += "&#39;";
    else
      out += byte;
  }
  return out;
}

}  // namespace estrain

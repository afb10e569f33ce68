#include "cmd/help/wrap.h"

#include <algorithm>

namespace estrain::help {
namespace {

// Counts bytes that begin a character of UTF-8.
size_t columns(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

std::string wrapped_line(std::string_view line, const Wrapping& wrapping) {
  const std::string indent(wrapping.indent, ' ');
  std::string text = indent;
  size_t used = wrapping.indent;
  while (!line.empty()) {
    const size_t end = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    const bool first = used == wrapping.indent;
    if (!first && used + 1 + columns(word) > wrapping.width) {
      text += "\n" + indent;
      used = wrapping.indent;
    } else if (!first) {
      text += ' ';
      ++used;
    }
    text += word;
    used += columns(word);
  }
  return text + "\n";
}

}  // namespace

std::string wrapped(std::string_view text, const Wrapping& wrapping) {
  std::string lines;
  for (;;) {
    const size_t end = text.find('\n');
    lines += wrapped_line(text.substr(0, end), wrapping);
    if (end == text.npos) return lines;
    text.remove_prefix(end + 1);
  }
}

}  // namespace estrain::help

#include "core/base/html_text.h"

#include "core/base/visible_text.h"

namespace estrain {

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

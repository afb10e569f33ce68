#include "core/base/json/json.h"

#include <algorithm>

namespace estrain {

JsonExtent measure_json(std::string_view text) {
  JsonExtent extent;
  int open = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      if (c == '{' || c == '[') extent.depth = std::max(extent.depth, ++open);
      if (c == '}' || c == ']') --open;
      if (c == ',') ++extent.values;
    }
  }
  return extent;
}

Json parse_json(std::string_view text, std::string_view source) {
  if (measure_json(text).depth > kDeepestJson)
    throw Error::make(Fault::corrupt, "{}: not valid JSON: nested more than {} deep", source, kDeepestJson);
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw Error::make(Fault::corrupt, "{}: not valid JSON: {}", source, error.what());
  }
}

Json parse_json_if_sound(std::string_view text) {
  if (measure_json(text).depth > kDeepestJson) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, false);
}

}  // namespace estrain

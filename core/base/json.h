#pragma once
// JSON as estrain writes it to logs and speaks it on the control socket: keys keep the order they were written in.

#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/error.h"

namespace estrain {

using Json = nlohmann::ordered_json;

// Parses one document. Throws Fault::corrupt naming `source` and the offset.
inline Json parse_json(std::string_view text, std::string_view source) {
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw Error::make(Fault::corrupt, "{}: not valid JSON: {}", source, error.what());
  }
}

}  // namespace estrain

#pragma once

#include <string>

#include "core/base/json/json.h"
#include "core/base/visible_text.h"

namespace estrain {

// Returns a line of JSON for people and scripts. JSON must be UTF-8, but paths and logs may have any bytes: invalid
// UTF-8 becomes U+FFFD. Characters with an effect on a terminal are escaped.
inline std::string json_text(const Json& json) {
  return visible_json(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace estrain

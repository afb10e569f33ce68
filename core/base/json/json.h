#pragma once
// JSON for logs and the control socket. Keys keep their order.
//
// All JSON is read by the two parse functions of this file. Both limit the depth of nesting, since copying, comparing
// and writing a value use stack for each level. Fields of records read back: json_fields.h.

#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/error.h"

namespace estrain {

using Json = nlohmann::ordered_json;

constexpr int kDeepestJson = 64;

// Parses a document. Throws Fault::corrupt naming `source` and the offset.
Json parse_json(std::string_view text, std::string_view source);

// Does the same without throwing: invalid or too deep JSON gives a "discarded" value (Json::is_discarded), of no type.
Json parse_json_if_sound(std::string_view text);

// Counts the depth of nesting and the number of values in a text, without parsing the text. Meaningless for text that
// is not JSON.
struct JsonExtent {
  int depth = 0;
  int64_t values = 1;
};
JsonExtent measure_json(std::string_view text);

}  // namespace estrain

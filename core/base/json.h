#pragma once
// JSON as estrain writes it to logs and speaks it on the control socket: keys keep the order they were written in.
//
// Everything is read by one of these two: they bound how deep a text is nested, for copying, comparing and writing a
// value all take stack for each level. Fields of records that are read back: json_fields.h.

#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/error.h"

namespace estrain {

using Json = nlohmann::ordered_json;

constexpr int kDeepestJson = 64;

// Parses one document. Throws Fault::corrupt naming `source` and the offset.
Json parse_json(std::string_view text, std::string_view source);

// The same; what is no JSON, or too deep, is "discarded" (Json::is_discarded), which is no object, array or number.
Json parse_json_if_sound(std::string_view text);

// How deep a text is nested and how many values it lists, without parsing it. For text that is not JSON the figures
// mean nothing.
struct JsonExtent {
  int depth = 0;
  int64_t values = 1;
};
JsonExtent measure_json(std::string_view text);

}  // namespace estrain

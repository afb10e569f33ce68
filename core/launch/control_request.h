#pragma once
// A request as it came over the control socket: text that somebody else wrote.

#include <string_view>

#include "core/base/json.h"

namespace estrain::launch {

// One line of a client, as a JSON object. Throws Fault::usage saying what is wrong with it: no JSON, no object, nested
// more than 8 deep, or of more than 256 values. The two limits keep the work that a request makes small: objects find
// their keys by going through them, and copies and texts of nested values are made by recursion.
Json parse_request(std::string_view line);

}  // namespace estrain::launch

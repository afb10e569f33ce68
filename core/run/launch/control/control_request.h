#pragma once
// Requests on the control socket: {"do": "resize", "devices": "cpu,cpu"}, on a line. Text that somebody else wrote.

#include <string_view>

#include "core/base/json/json.h"
#include "core/run/decisions/state/request.h"

namespace estrain::launch {

Json encode_request(const decisions::Request& request);

// Throws Fault::usage where it is none, or a field is not of its type.
decisions::Request decode_request(const Json& json);

// One line of a client, as a JSON object. Throws Fault::usage saying what is wrong with it: no JSON, or nested more
// than 8 deep, or of more than 256 values. The limits keep the work that a request makes small.
Json parse_request(std::string_view line);

}  // namespace estrain::launch

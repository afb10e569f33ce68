#pragma once
// Requests on the control socket: {"do": "resize", "devices": "cpu,cpu"}, on a line. Text from another process.

#include <string_view>

#include "core/base/json/json.h"
#include "core/run/decisions/state/request.h"

namespace estrain::launch {

Json encode_request(const decisions::Request& request);

// Throws Fault::usage if `json` is no request, or a field has a wrong type.
decisions::Request decode_request(const Json& json);

// Reads one line of a client as a JSON object. Throws Fault::usage with the reason: no JSON, or nested more than 8
// deep, or of more than 256 values. The limits keep the work for a request small.
Json parse_request(std::string_view line);

}  // namespace estrain::launch

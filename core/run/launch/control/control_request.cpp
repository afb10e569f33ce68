#include "core/run/launch/control/control_request.h"

#include "core/base/json/codec.h"
#include "core/base/json/json_fields.h"

namespace estrain::launch {
namespace {

constexpr std::string_view kVerb = "do";
constexpr int kDeepest = 8;
constexpr int kMostValues = 256;

Error no_request(const std::string& what) {
  return Error(Fault::usage, "not a request: " + what)
      .advise(R"(send one JSON object on a line, such as {"do": "status"})");
}

}  // namespace

Json encode_request(const decisions::Request& request) { return codec::encode(request, kVerb); }

decisions::Request decode_request(const Json& json) {
  try {
    return codec::decode<decisions::Request>(json, kVerb);
  } catch (const Error& error) {
    const std::optional<std::string> verb = text_in(json, kVerb);
    throw verb ? error.within(fmt::format("request \"{}\"", *verb)) : no_request("it has no \"do\"");
  }
}

Json parse_request(std::string_view line) {
  const JsonExtent extent = measure_json(line);
  if (extent.depth > kDeepest) throw no_request(fmt::format("nested more than {} deep", kDeepest));
  if (extent.values > kMostValues) throw no_request(fmt::format("more than {} values", kMostValues));
  Json request = parse_json_if_sound(line);
  if (request.is_discarded()) throw no_request("not valid JSON");
  if (!request.is_object()) throw no_request("not a JSON object");
  return request;
}

}  // namespace estrain::launch

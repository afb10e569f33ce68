#include "core/launch/control_request.h"

#include <algorithm>

namespace estrain::launch {
namespace {

constexpr int kDeepest = 8;
constexpr int kMostValues = 256;

// How deep a text is nested and how many values it lists, without parsing it. For text that is not JSON the figures
// mean nothing, but they are still cheap.
struct Extent {
  int depth = 0;
  int values = 1;
};

Extent measure(std::string_view text) {
  Extent extent;
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

Error no_request(const std::string& what) {
  return Error(Fault::usage, "not a request: " + what)
      .advise(R"(send one JSON object on a line, such as {"do": "status"})");
}

}  // namespace

Json parse_request(std::string_view line) {
  const Extent extent = measure(line);
  if (extent.depth > kDeepest) throw no_request(fmt::format("nested more than {} deep", kDeepest));
  if (extent.values > kMostValues) throw no_request(fmt::format("more than {} values", kMostValues));
  Json request = Json::parse(line, nullptr, false);
  if (request.is_discarded()) throw no_request("not valid JSON");
  if (!request.is_object()) throw no_request("not a JSON object");
  return request;
}

}  // namespace estrain::launch

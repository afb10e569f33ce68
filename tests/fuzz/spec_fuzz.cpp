// The job spec: TOML text, then --set arguments, separated by zero bytes. An accepted spec must be equal after being
// written and read again.
#include "core/job/spec/parsing/parse.h"
#include "tests/fuzz/fuzz_input.h"

namespace estrain::fuzz {
namespace {

void read_spec(std::string_view input) {
  const size_t end = input.find('\0');
  const std::string_view text = input.substr(0, end);
  std::vector<std::string> overrides;
  while (end != input.npos && overrides.size() < 8) {
    input.remove_prefix(std::min(input.size(), input.find('\0') + 1));
    overrides.emplace_back(input.substr(0, input.find('\0')));
    if (input.find('\0') == input.npos) break;
  }
  spec::JobSpec spec;
  if (!accepts([&] { spec = spec::parse_text(text, "jobs/fuzz.toml", overrides); })) return;
  const std::string resolved = spec::to_toml(spec);
  spec::JobSpec again;
  require(accepts([&] { again = spec::parse_text(resolved, "jobs/fuzz.toml"); }), "a resolved spec is a spec");
  require(again == spec, "a resolved spec is the same spec");
  require(spec::to_toml(again) == resolved, "a resolved spec is resolved");
  require(spec::changed_keys(spec, again).empty(), "nothing has changed");
}

}  // namespace
}  // namespace estrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  estrain::fuzz::read_spec(estrain::fuzz::text_of(data, size));
  return 0;
}

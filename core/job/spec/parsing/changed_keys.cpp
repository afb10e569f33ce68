#include "core/job/spec/defaults.h"
#include "core/job/spec/keys/keys.h"
#include "core/job/spec/parsing/parse.h"

namespace estrain::spec {
namespace {

std::optional<std::string> effective(const SpecKey<JobSpec>& key, const JobSpec& spec) {
  if (!all_hold(key.conditions, spec)) return std::nullopt;
  const std::optional<std::string> text = key.write(spec);
  return key.defines_bits_as_switch && text != "0" ? "not 0" : text;
}

bool defines_bits(const SpecKey<JobSpec>& key, const JobSpec& spec) {
  return key.defines_bits || (key.defines_bits_where && holds(*key.defines_bits_where, spec));
}

}  // namespace

std::vector<std::string> changed_keys(const JobSpec& before, const JobSpec& after) {
  const JobSpec was = with_defaults(before), is = with_defaults(after);
  std::vector<std::string> changed;
  for (const auto& key : job_keys()) {
    if (defines_bits(key, is) && effective(key, was) != effective(key, is)) changed.push_back(key.name);
  }
  return changed;
}

}  // namespace estrain::spec

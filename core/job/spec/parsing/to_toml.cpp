#include <fmt/format.h>

#include "core/job/spec/keys/keys.h"
#include "core/job/spec/parsing/parse.h"

namespace estrain::spec {
namespace {

std::string line_of(const SpecKey<JobSpec>& key, const JobSpec& spec) {
  const std::optional<std::string> value = key.write(spec);
  if (!value) return fmt::format("# {} is not set: {}\n", leaf_of(key.name), key.default_text());
  const bool no_path = key.rule.path && *value == toml::literal("");
  return fmt::format("{}{} = {}\n", no_path ? "# " : "", leaf_of(key.name), *value);
}

}  // namespace

std::string to_toml(const JobSpec& spec) {
  std::string text, table;
  for (const auto& key : job_keys()) {
    if (!all_hold(key.conditions, spec)) continue;
    if (table != table_of(key.name)) {
      table = table_of(key.name);
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", table);
    }
    text += line_of(key, spec);
  }
  return text;
}

}  // namespace estrain::spec

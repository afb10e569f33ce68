#include <fmt/format.h>

#include "core/job/spec/keys/keys.h"
#include "core/job/spec/parsing/parse.h"

namespace estrain::spec {

std::string only_for(const std::vector<Condition>& conditions) {
  std::string text;
  for (const Condition& condition : conditions) {
    if (condition.values == std::vector<std::string>{""}) {
      text += fmt::format(" Not with {}.", condition.selector);
    } else {
      text += fmt::format(" Only for {} {}.", condition.selector, quoted_list(condition.values, " or "));
    }
  }
  return text;
}

namespace {

template <typename Owner>
std::string row(const SpecKey<Owner>& key, std::string_view prefix) {
  return fmt::format("| `{}{}` | {} | {} | {} | {}{} |\n", prefix, key.name, key.type(key.rule), key.default_text(),
                     key.rule.text(), key.meaning, only_for(key.conditions));
}

}  // namespace

std::string key_reference() {
  std::string text = "| key | type | default | range | meaning |\n|---|---|---|---|---|\n";
  for (const auto& key : job_keys()) {
    text += row(key, "");
    if (key.name == "optimizer.groups")
      for (const auto& member : group_keys()) text += row(member, "optimizer.groups.");
    if (key.name == "elastic.changes")
      for (const auto& member : change_keys()) text += row(member, "elastic.changes.");
  }
  return text;
}

}  // namespace estrain::spec

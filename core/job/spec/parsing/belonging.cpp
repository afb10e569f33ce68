#include <fmt/format.h>

#include "core/job/spec/enum_names.h"
#include "core/job/spec/keys/closest.h"
#include "core/job/spec/keys/keys.h"
#include "core/job/spec/parsing/checks.h"

namespace estrain::spec {
namespace {

std::string why_not(const Condition& condition, const JobSpec& spec) {
  if (condition.values == std::vector<std::string>{""}) {
    return fmt::format("cannot be given together with {}; give one of the two", condition.selector);
  }
  return fmt::format("belongs to {} = {}; here it is {}", condition.selector, quoted_list(condition.values, " or "),
                     find_key(condition.selector)->write(spec).value_or("not set"));
}

// A key's name in a message: the key in the table, and the part of its value.
struct Named {
  std::string key;
  std::string part;  // "momentum: " of a group, or empty
};

// Complains about a member of the document if a condition of its key does not hold.
void check_member(const std::vector<Condition>& conditions, const toml::KeyValue& member, const Named& named,
                  const JobSpec& spec, Mistakes& mistakes) {
  for (const Condition& condition : conditions) {
    if (mistakes.about(condition.selector) || holds(condition, spec)) continue;
    mistakes.add(member.at, named.key, named.part + why_not(condition, spec));
    return;
  }
}

// Returns the spec with the group's optimizer, if the group names one, in the job's place.
JobSpec with_optimizer_of(const toml::Value& group, JobSpec spec) {
  const toml::KeyValue* name = toml::find(*group.table(), "name");
  if (name == nullptr || name->value.string() == nullptr) return spec;
  spec.optimizer.name = from_string<OptimizerKind>(*name->value.string()).value_or(spec.optimizer.name);
  return spec;
}

void check_groups(const JobSpec& spec, const Document& document, Mistakes& mistakes) {
  const toml::KeyValue* groups = document.find("optimizer.groups");
  if (!groups || !groups->value.array()) return;
  for (const toml::Value& group : *groups->value.array()) {
    if (!group.table()) continue;
    const JobSpec as_for_group = with_optimizer_of(group, spec);
    for (const auto& key : group_keys()) {
      const toml::KeyValue* member = toml::find(*group.table(), key.name);
      if (member) check_member(key.conditions, *member, {"optimizer.groups", key.name + ": "}, as_for_group, mistakes);
    }
  }
}

}  // namespace

void check_belonging(const JobSpec& spec, const Document& document, Mistakes& mistakes) {
  for (const auto& key : job_keys()) {
    const toml::KeyValue* member = document.find(key.name);
    if (member) check_member(key.conditions, *member, {key.name, ""}, spec, mistakes);
  }
  check_groups(spec, document, mistakes);
}

}  // namespace estrain::spec

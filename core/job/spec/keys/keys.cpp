#include "core/job/spec/keys/keys.h"

#include <algorithm>

#include "core/job/spec/keys/key_parts.h"

namespace estrain::spec {

const std::vector<SpecKey<JobSpec>>& job_keys() {
  static const std::vector<SpecKey<JobSpec>> keys = [] {
    std::vector<SpecKey<JobSpec>> all;
    for (const auto& part : {job_and_model_keys(), data_keys(), optimizer_and_schedule_keys(), run_keys()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return keys;
}

const SpecKey<JobSpec>* find_key(std::string_view name) {
  const auto& keys = job_keys();
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const auto& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

std::string_view table_of(std::string_view name) { return name.substr(0, name.find('.')); }
std::string_view leaf_of(std::string_view name) { return name.substr(name.find('.') + 1); }

bool holds(const Condition& condition, const JobSpec& spec) {
  const std::string value = find_key(condition.selector)->write(spec).value_or("");
  return std::any_of(condition.values.begin(), condition.values.end(),
                     [&](const std::string& allowed) { return toml::literal(allowed) == value; });
}

bool all_hold(const std::vector<Condition>& conditions, const JobSpec& spec) {
  return std::all_of(conditions.begin(), conditions.end(),
                     [&](const auto& condition) { return holds(condition, spec); });
}

}  // namespace estrain::spec

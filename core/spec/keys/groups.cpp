// Codec of one [[optimizer.groups]], made from the table of its keys.

#include <fmt/ranges.h>

#include <algorithm>

#include "core/spec/keys/codec.h"
#include "core/spec/keys/keys.h"
#include "core/spec/keys/unknown_names.h"

namespace estrain::spec {
namespace {

const Key<OptimizerGroup>* find_group_key(std::string_view name) {
  const auto& keys = group_keys();
  const auto found = std::find_if(keys.begin(), keys.end(), [&](const auto& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

bool read_member(OptimizerGroup& group, const toml::Member& member, const Reading& reading) {
  const Key<OptimizerGroup>* key = find_group_key(member.key);
  if (!key) {
    reading.complain(member.at, member.key + ": " + unknown_group_key(member.key));
    return false;
  }
  const Complain of_key = [&](const toml::Location& at, const std::string& text) {
    reading.complain(at, member.key + ": " + text);
  };
  return key->read(group, member.value, {key->rule, reading.folder, of_key});
}

}  // namespace

std::optional<OptimizerGroup> Codec<OptimizerGroup>::read(const toml::Value& value, const Reading& reading) {
  const toml::Table* table = value.table();
  if (!table) {
    complain_of_type(value, "a table", reading);
    return std::nullopt;
  }
  OptimizerGroup group;
  bool fit = true;
  for (const toml::Member& member : *table) fit = read_member(group, member, reading) && fit;
  for (const auto& key : group_keys()) {
    if (!key.required || toml::find(*table, key.name)) continue;
    reading.complain(value.at, key.name + ": missing");
    fit = false;
  }
  return fit ? std::make_optional(group) : std::nullopt;
}

std::optional<std::string> Codec<OptimizerGroup>::write(const OptimizerGroup& group, const Rule&) {
  std::vector<std::string> members;
  for (const auto& key : group_keys()) {
    if (const auto text = key.write(group)) members.push_back(key.name + " = " + *text);
  }
  return fmt::format("{{ {} }}", fmt::join(members, ", "));
}

}  // namespace estrain::spec

// Codecs of tables in an array, [[optimizer.groups]] and [[elastic.changes]], made from the tables of their keys.

#include <fmt/ranges.h>

#include <algorithm>

#include "core/job/spec/keys/codec.h"
#include "core/job/spec/keys/keys.h"
#include "core/job/spec/keys/unknown_names.h"

namespace estrain::spec {
namespace {

template <typename Owner>
using Keys = std::vector<SpecKey<Owner>>;

template <typename Owner>
constexpr std::string_view noun = "";
template <>
constexpr std::string_view noun<OptimizerGroup> = "a group";
template <>
constexpr std::string_view noun<batches::BatchChange> = "a change";

template <typename Owner>
std::vector<std::string> names_of(const Keys<Owner>& keys) {
  std::vector<std::string> names;
  for (const auto& key : keys) names.push_back(key.name);
  return names;
}

template <typename Owner>
bool read_member(Owner& owner, const Keys<Owner>& keys, const toml::KeyValue& member, const ReadContext& reading) {
  const auto key = std::ranges::find(keys, member.key, &SpecKey<Owner>::name);
  if (key == keys.end()) {
    reading.complain(member.at, member.key + ": " + unknown_member(member.key, names_of(keys), noun<Owner>));
    return false;
  }
  const Complain of_key = [&](const toml::Location& at, const std::string& text) {
    reading.complain(at, member.key + ": " + text);
  };
  return key->read(owner, member.value, {key->rule, reading.folder, of_key});
}

template <typename Owner>
std::optional<Owner> read_table(const toml::Value& value, const Keys<Owner>& keys, const ReadContext& reading) {
  const toml::Table* table = value.table();
  if (!table) {
    complain_of_type(value, "a table", reading);
    return std::nullopt;
  }
  Owner owner;
  bool fit = true;
  for (const toml::KeyValue& member : *table) fit = read_member(owner, keys, member, reading) && fit;
  for (const auto& key : keys) {
    if (!key.required || toml::find(*table, key.name)) continue;
    reading.complain(value.at, key.name + ": missing");
    fit = false;
  }
  return fit ? std::make_optional(owner) : std::nullopt;
}

template <typename Owner>
std::string table_text(const Owner& owner, const Keys<Owner>& keys) {
  std::vector<std::string> members;
  for (const auto& key : keys) {
    if (const auto text = key.write(owner)) members.push_back(key.name + " = " + *text);
  }
  return fmt::format("{{ {} }}", fmt::join(members, ", "));
}

}  // namespace

std::optional<OptimizerGroup> Codec<OptimizerGroup>::read(const toml::Value& value, const ReadContext& reading) {
  return read_table(value, group_keys(), reading);
}

std::optional<std::string> Codec<OptimizerGroup>::write(const OptimizerGroup& group, const Rule&) {
  return table_text(group, group_keys());
}

std::optional<batches::BatchChange> Codec<batches::BatchChange>::read(const toml::Value& value,
                                                                      const ReadContext& reading) {
  return read_table(value, change_keys(), reading);
}

std::optional<std::string> Codec<batches::BatchChange>::write(const batches::BatchChange& change, const Rule&) {
  return table_text(change, change_keys());
}

}  // namespace estrain::spec

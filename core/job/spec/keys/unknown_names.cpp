#include "core/job/spec/keys/unknown_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/job/spec/keys/closest.h"
#include "core/job/spec/keys/keys.h"

namespace estrain::spec {
namespace {

using Names = std::vector<std::string>;

Names table_names() {
  Names names;
  for (const auto& key : job_keys()) {
    if (names.empty() || names.back() != table_of(key.name)) names.emplace_back(table_of(key.name));
  }
  return names;
}

Names leaves_of(std::string_view table) {
  Names leaves;
  for (const auto& key : job_keys()) {
    if (table_of(key.name) == table) leaves.emplace_back(leaf_of(key.name));
  }
  return leaves;
}

// "batch_size" -> "batch": finds a candidate that is a word of the name.
std::optional<std::string> inside(const std::string& name, const Names& candidates) {
  const auto is_word = [&](const std::string& word) {
    return ("_" + name + "_").find("_" + word + "_") != std::string::npos;
  };
  const auto found = std::find_if(candidates.begin(), candidates.end(), is_word);
  return found == candidates.end() ? std::nullopt : std::make_optional(*found);
}

std::optional<std::string> key_of_other_table(const std::string& leaf) {
  for (const auto& key : job_keys()) {
    if (edit_distance(leaf_of(key.name), leaf) == 0) return key.name;
  }
  return std::nullopt;
}

std::string did_you_mean(const std::string& name) { return "; did you mean " + quoted_list({name}) + "?"; }

}  // namespace

std::string unknown_table(const std::string& name) {
  const std::optional<std::string> meant = closest(name, table_names());
  return "unknown table" + (meant ? did_you_mean(*meant) : "; known are " + quoted_list(table_names()));
}

std::string unknown_key(const std::string& name) {
  const std::string table(table_of(name)), leaf(leaf_of(name));
  const Names leaves = leaves_of(table);
  const std::string prefix = table + ".";
  if (const auto meant = closest(leaf, leaves)) return "unknown key" + did_you_mean(prefix + *meant);
  if (const auto meant = key_of_other_table(leaf)) return "unknown key" + did_you_mean(*meant);
  if (const auto meant = inside(leaf, leaves)) return "unknown key" + did_you_mean(prefix + *meant);
  if (leaves.empty()) return "unknown key outside all tables; tables are " + quoted_list(table_names());
  return fmt::format("unknown key; {} has {}", table, quoted_list(leaves));
}

std::string unknown_member(const std::string& name, const std::vector<std::string>& known, std::string_view owner) {
  const std::optional<std::string> meant = closest(name, known);
  return "unknown key" + (meant ? did_you_mean(*meant) : fmt::format("; {} has {}", owner, quoted_list(known)));
}

}  // namespace estrain::spec

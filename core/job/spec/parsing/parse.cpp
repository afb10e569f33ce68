#include "core/job/spec/parsing/parse.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/files/input_file.h"
#include "core/formats/toml/parse.h"
#include "core/job/spec/keys/keys.h"
#include "core/job/spec/keys/unknown_names.h"
#include "core/job/spec/parsing/checks.h"
#include "core/job/spec/parsing/document.h"
#include "core/job/spec/parsing/mistakes.h"

namespace estrain::spec {
namespace {

bool is_table(std::string_view name) {
  return std::any_of(job_keys().begin(), job_keys().end(), [&](const auto& key) { return table_of(key.name) == name; });
}

// A spec has either steps or epochs; --set with either key replaces the other key in the file.
void replace_length(toml::Value& root) {
  toml::KeyValue* train = toml::find(*root.table(), "train");
  if (!train || !train->value.table()) return;
  toml::Table& keys = *train->value.table();
  const auto set_by_argument = [&](std::string_view key) {
    const toml::KeyValue* member = toml::find(keys, key);
    return member && !member->at.in_file();
  };
  const auto drop_from_file = [&](std::string_view key) {
    std::erase_if(keys, [&](const toml::KeyValue& member) { return member.key == key && member.at.in_file(); });
  };
  if (set_by_argument("steps")) drop_from_file("epochs");
  if (set_by_argument("epochs")) drop_from_file("steps");
}

void read_key(JobSpec& spec, const toml::KeyValue& member, const SpecKey<JobSpec>& key, const Document& document,
              Mistakes& mistakes) {
  const Complain complain = [&](const toml::Location& at, std::string text) {
    mistakes.add(at, key.name, std::move(text));
  };
  const std::filesystem::path folder = std::filesystem::path(document.source).parent_path();
  key.read(spec, member.value, {key.rule, folder, complain});
}

void read_table(JobSpec& spec, const toml::KeyValue& table, const Document& document, Mistakes& mistakes) {
  for (const toml::KeyValue& member : *table.value.table()) {
    const std::string name = table.key + "." + member.key;
    if (const SpecKey<JobSpec>* key = find_key(name)) {
      read_key(spec, member, *key, document, mistakes);
    } else {
      mistakes.add(member.at, name, unknown_key(name));
    }
  }
}

void read_tables(JobSpec& spec, const Document& document, Mistakes& mistakes) {
  for (const toml::KeyValue& member : *document.root.table()) {
    if (is_table(member.key) && member.value.table()) {
      read_table(spec, member, document, mistakes);
    } else if (is_table(member.key)) {
      mistakes.add(member.value.at, member.key, "expected a table, found " + member.value.describe());
    } else {
      mistakes.add(member.at, member.key, member.value.table() ? unknown_table(member.key) : unknown_key(member.key));
    }
  }
}

void find_missing(const Document& document, Mistakes& mistakes) {
  for (const auto& key : job_keys()) {
    if (!key.required || document.find(key.name) || mistakes.about(key.name)) continue;
    mistakes.add(document.place_of(key.name), key.name, fmt::format("missing; one of {}", key.rule.text()));
  }
}

// Reports an unreadable path as a mistake in the spec.
template <typename Read>
auto read_spec(Read&& read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(Fault::spec, error.message())
        .advise(error.advice().empty() ? "name a spec; `estrain init` writes one to start from" : error.advice());
  }
}

}  // namespace

JobSpec parse_text(std::string_view toml, const std::string& source_name, const std::vector<std::string>& overrides) {
  Document document{toml::parse(toml, source_name), source_name};
  for (const std::string& argument : overrides) toml::apply_override(document.root, argument);
  replace_length(document.root);

  JobSpec spec;
  Mistakes mistakes;
  read_tables(spec, document, mistakes);
  find_missing(document, mistakes);
  check_belonging(spec, document, mistakes);
  check_combinations(spec, document, mistakes);
  mistakes.throw_if_any();
  if (spec.job.determinism == Determinism::d2) spec.job.kernels = Kernels::portable;
  return spec;
}

JobSpec parse_file(const std::string& path, const std::vector<std::string>& overrides) {
  const Input input = read_spec([&] { return read_file_or_pipe(path, kMostSpec); });
  return parse_text(input.text, input.piped ? "(pipe)" : path, overrides);
}

JobSpec parse_regular_file(const std::string& path) {
  return parse_text(read_spec([&] { return read_whole(open_input(path).get(), path, kMostSpec); }), path);
}

}  // namespace estrain::spec

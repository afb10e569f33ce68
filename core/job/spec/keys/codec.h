#pragma once
// TOML value <-> C++ value, by type. A codec reports a bad value with its place instead of throwing: a single pass over
// a spec finds all mistakes.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/formats/toml/literal.h"
#include "core/formats/toml/value.h"
#include "core/job/spec/enum_names.h"
#include "core/job/spec/job_spec.h"
#include "core/job/spec/keys/closest.h"
#include "core/job/spec/keys/rule.h"

namespace estrain::spec {

// Records a mistake at a place.
using Complain = std::function<void(const toml::Location&, std::string)>;

// The context for reading a value.
struct ReadContext {
  const Rule& rule;
  const std::filesystem::path& folder;  // base of relative paths
  const Complain& complain;
};

void complain_of_type(const toml::Value& value, const std::string& expected, const ReadContext& reading);
void complain_of_word(const toml::Value& value, const std::vector<std::string>& known, const ReadContext& reading);
bool length_fits(const toml::Value& value, size_t length, const ReadContext& reading);

// read: nothing after a complaint. write: TOML text that reads back as the same value; nothing without a value.
template <typename T>
struct Codec;

template <>
struct Codec<bool> {
  static std::string type(const Rule&) { return "boolean"; }
  static std::optional<bool> read(const toml::Value& value, const ReadContext& reading);
  static std::optional<std::string> write(bool value, const Rule&) { return toml::literal(value); }
};

template <>
struct Codec<int64_t> {
  static std::string type(const Rule& rule);
  static std::optional<int64_t> read(const toml::Value& value, const ReadContext& reading);
  static std::optional<std::string> write(int64_t value, const Rule& rule);
};

template <>
struct Codec<double> {
  static std::string type(const Rule&) { return "number"; }
  static std::optional<double> read(const toml::Value& value, const ReadContext& reading);
  static std::optional<std::string> write(double value, const Rule&) { return toml::literal(value); }
};

template <>
struct Codec<std::string> {
  static std::string type(const Rule& rule);
  static std::optional<std::string> read(const toml::Value& value, const ReadContext& reading);
  static std::optional<std::string> write(const std::string& value, const Rule&) { return toml::literal(value); }
};

// The keys of a group and of a change have their own tables (keys.h).
template <>
struct Codec<OptimizerGroup> {
  static std::string type(const Rule&) { return "table"; }
  static std::optional<OptimizerGroup> read(const toml::Value& value, const ReadContext& reading);
  static std::optional<std::string> write(const OptimizerGroup& group, const Rule&);
};

template <>
struct Codec<batches::BatchChange> {
  static std::string type(const Rule&) { return "table"; }
  static std::optional<batches::BatchChange> read(const toml::Value& value, const ReadContext& reading);
  static std::optional<std::string> write(const batches::BatchChange& change, const Rule&);
};

template <typename E>
requires std::is_enum_v<E>
struct Codec<E> {
  static std::vector<std::string> words() {
    std::vector<std::string> all;
    for (const auto& entry : enum_names<E>()) all.emplace_back(entry.name);
    return all;
  }
  static std::string type(const Rule&) { return "string"; }
  static std::optional<E> read(const toml::Value& value, const ReadContext& reading) {
    const std::string* word = value.string();
    if (!word) {
      complain_of_type(value, "one of " + quoted_list(words()), reading);
      return std::nullopt;
    }
    const std::optional<E> known = from_string<E>(*word);
    if (!known) complain_of_word(value, words(), reading);
    return known;
  }
  static std::optional<std::string> write(E value, const Rule&) { return toml::literal(to_string(value)); }
};

template <typename T>
struct Codec<std::optional<T>> {
  static std::string type(const Rule& rule) { return Codec<T>::type(rule); }
  static std::optional<std::optional<T>> read(const toml::Value& value, const ReadContext& reading) {
    const std::optional<T> inner = Codec<T>::read(value, reading);
    return inner ? std::make_optional(inner) : std::nullopt;
  }
  static std::optional<std::string> write(const std::optional<T>& value, const Rule& rule) {
    return value ? Codec<T>::write(*value, rule) : std::nullopt;
  }
};

template <typename T>
struct Codec<std::vector<T>> {
  static std::string type(const Rule& rule) { return "array of " + Codec<T>::type(rule) + "s"; }
  static std::optional<std::vector<T>> read(const toml::Value& value, const ReadContext& reading) {
    const toml::Array* elements = value.array();
    if (!elements) {
      complain_of_type(value, "an " + type(reading.rule), reading);
      return std::nullopt;
    }
    std::vector<T> all;
    for (const toml::Value& element : *elements) {
      if (const std::optional<T> one = Codec<T>::read(element, reading)) all.push_back(*one);
    }
    const bool fits = length_fits(value, elements->size(), reading) && all.size() == elements->size();
    return fits ? std::make_optional(std::move(all)) : std::nullopt;
  }
  static std::optional<std::string> write(const std::vector<T>& values, const Rule& rule) {
    std::string text;
    for (const T& value : values) text += (text.empty() ? "" : ", ") + *Codec<T>::write(value, rule);
    return "[" + text + "]";
  }
};

// Makes a path absolute. Absolute and empty paths stay unchanged; a relative path is relative to `folder`, which is
// relative to the current folder. Symbolic links in `folder` are followed: ".." means the real parent. A leading `~` or
// `~user` is the user's home folder, as in a shell, if such a folder exists.
std::string resolve_path(const std::string& written, const std::filesystem::path& folder);

}  // namespace estrain::spec

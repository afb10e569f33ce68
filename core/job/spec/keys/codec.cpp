#include "core/job/spec/keys/codec.h"

#include <fmt/ranges.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <system_error>

#include "core/base/process/child_process.h"
#include "core/base/visible_text.h"

namespace estrain::spec {
namespace fs = std::filesystem;

namespace {

template <typename T>
std::optional<T> in_range(T number, const toml::Value& value, const ReadContext& reading) {
  if (reading.rule.range.contains(number)) return number;
  const std::string bounds = reading.rule.range.text();
  const bool interval = bounds.front() == '[' || bounds.front() == '(';
  reading.complain(value.at,
                   fmt::format("must be {}{}, found {}", interval ? "in " : "", bounds, toml::literal(number)));
  return std::nullopt;
}

std::optional<int64_t> allowed_integer(int64_t number, const toml::Value& value, const ReadContext& reading) {
  const std::vector<int64_t>& numbers = reading.rule.numbers;
  if (numbers.empty() || std::find(numbers.begin(), numbers.end(), number) != numbers.end()) {
    return in_range(number, value, reading);
  }
  reading.complain(value.at, fmt::format("must be {}, found {}", fmt::join(numbers, " or "), number));
  return std::nullopt;
}

std::vector<std::string> words_of(const Rule& rule) {
  std::vector<std::string> words;
  for (const auto& [word, number] : rule.words) words.push_back(word);
  return words;
}

std::optional<std::string> text_of_integer(int64_t number, const toml::Value& value, const ReadContext& reading) {
  if (number >= 1) return std::to_string(number);
  reading.complain(value.at, fmt::format("must be >= 1, found {}", number));
  return std::nullopt;
}

std::optional<std::string> absolute_path(const std::string& path, const toml::Value& value,
                                         const ReadContext& reading) {
  std::string resolved = resolve_path(path, value.at.in_file() ? reading.folder : std::filesystem::path());
  if (is_utf8(resolved)) return resolved;
  reading.complain(value.at, "the name of the folder of this relative path is not UTF-8; give an absolute path");
  return std::nullopt;
}

fs::path real_folder(const fs::path& folder) {
  std::error_code failed;
  const fs::path absolute = fs::absolute(folder.empty() ? "." : folder, failed);
  // A relative path stays relative if no part of the path exists: make the path absolute first.
  const fs::path real = fs::weakly_canonical(absolute, failed);
  return failed ? absolute : real;
}

// Returns the home folder of a user, or of this process's user for an empty name; empty without a home folder.
std::string home_of(const std::string& name) {
  std::string own = environment_variable("HOME").value_or("");
  if (name.empty() && !own.empty()) return own;
  const passwd* user = name.empty() ? ::getpwuid(::getuid()) : ::getpwnam(name.c_str());
  return user == nullptr ? "" : user->pw_dir;
}

// Resolves "~/x" and "~user/x" as a shell does; returns any other path unchanged.
std::string with_home(const std::string& path) {
  if (!path.starts_with('~')) return path;
  const size_t slash = std::min(path.find('/'), path.size());
  const std::string home = home_of(path.substr(1, slash - 1));
  return home.empty() ? path : home + path.substr(slash);
}

}  // namespace

void complain_of_type(const toml::Value& value, const std::string& expected, const ReadContext& reading) {
  reading.complain(value.at, fmt::format("expected {}, found {}", expected, value.describe()));
}

void complain_of_word(const toml::Value& value, const std::vector<std::string>& known, const ReadContext& reading) {
  const std::optional<std::string> meant = closest(*value.string(), known);
  const std::string hint = meant ? "did you mean " + quoted_list({*meant}) + "?" : "known are " + quoted_list(known);
  reading.complain(value.at, fmt::format("unknown value {}; {}", toml::literal(*value.string()), hint));
}

bool length_fits(const toml::Value& value, size_t length, const ReadContext& reading) {
  const std::vector<size_t>& lengths = reading.rule.lengths;
  if (!lengths.empty() && std::find(lengths.begin(), lengths.end(), length) == lengths.end()) {
    reading.complain(value.at, fmt::format("must have {} elements, found {}", lengths_text(reading.rule), length));
    return false;
  }
  if (reading.rule.filled && length == 0) {
    reading.complain(value.at, "must not be empty");
    return false;
  }
  return true;
}

std::optional<bool> Codec<bool>::read(const toml::Value& value, const ReadContext& reading) {
  if (const bool* flag = value.boolean()) return *flag;
  complain_of_type(value, "true or false", reading);
  return std::nullopt;
}

std::string Codec<int64_t>::type(const Rule& rule) {
  return rule.words.empty() ? "integer" : "integer or " + quoted_list(words_of(rule), " or ");
}

std::optional<int64_t> Codec<int64_t>::read(const toml::Value& value, const ReadContext& reading) {
  if (value.integer()) return allowed_integer(*value.integer(), value, reading);
  if (value.string() && !reading.rule.words.empty()) {
    for (const auto& [word, number] : reading.rule.words) {
      if (word == *value.string()) return number;
    }
    complain_of_word(value, words_of(reading.rule), reading);
  } else {
    complain_of_type(value, "an " + type(reading.rule), reading);
  }
  return std::nullopt;
}

std::optional<std::string> Codec<int64_t>::write(int64_t value, const Rule& rule) {
  for (const auto& [word, number] : rule.words) {
    if (number == value) return toml::literal(word);
  }
  return toml::literal(value);
}

std::optional<double> Codec<double>::read(const toml::Value& value, const ReadContext& reading) {
  const std::optional<double> number = value.number();
  if (number && std::isfinite(*number)) return in_range(*number, value, reading);
  complain_of_type(value, number ? "a finite number" : "a number", reading);
  return std::nullopt;
}

std::string Codec<std::string>::type(const Rule& rule) {
  if (rule.takes_integer) return "string or integer";
  return rule.path ? "path" : "string";
}

std::optional<std::string> Codec<std::string>::read(const toml::Value& value, const ReadContext& reading) {
  const Rule& rule = reading.rule;
  if (rule.takes_integer && value.integer()) return text_of_integer(*value.integer(), value, reading);
  const std::string* text = value.string();
  if (!text) {
    complain_of_type(value, rule.takes_integer ? "a string or an integer" : "a string", reading);
    return std::nullopt;
  }
  if (rule.filled && text->empty()) {
    reading.complain(value.at, "must not be empty");
    return std::nullopt;
  }
  if (!rule.choices.empty() && std::find(rule.choices.begin(), rule.choices.end(), *text) == rule.choices.end()) {
    complain_of_word(value, rule.choices, reading);
    return std::nullopt;
  }
  return rule.path ? absolute_path(*text, value, reading) : *text;
}

std::string resolve_path(const std::string& written, const fs::path& folder) {
  std::string path = with_home(written);
  if (path.empty() || fs::path(path).is_absolute()) return path;
  fs::path resolved = real_folder(folder);
  bool leading = true;  // after a name, ".." is left to the file system, since the name may be a symbolic link
  for (const fs::path& part : fs::path(path)) {
    if (part == "." || part.empty()) continue;
    leading = leading && part == "..";
    resolved = leading ? resolved.parent_path() : resolved / part;
  }
  return resolved.string();
}

}  // namespace estrain::spec

#include "core/formats/toml/value.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/formats/toml/literal.h"

namespace estrain::toml {
namespace {

struct Describe {
  std::string operator()(const std::string& text) const { return "the string " + literal(text); }
  std::string operator()(int64_t number) const { return "the integer " + literal(number); }
  std::string operator()(double number) const { return "the number " + literal(number); }
  std::string operator()(bool flag) const { return "the boolean " + literal(flag); }
  std::string operator()(const Date&) const { return "a date or time"; }
  std::string operator()(const Array&) const { return "an array"; }
  std::string operator()(const Table&) const { return "a table"; }
};

}  // namespace

std::string Location::text() const { return in_file() ? fmt::format("{}:{}:{}", source, line, column) : source; }

std::optional<double> Value::number() const {
  if (const auto* real = std::get_if<double>(&data)) return *real;
  if (const auto* whole = integer()) return static_cast<double>(*whole);
  return std::nullopt;
}

std::string Value::describe() const { return std::visit(Describe{}, data); }

const KeyValue* find(const Table& table, std::string_view key) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const KeyValue& member) { return member.key == key; });
  return found == table.end() ? nullptr : &*found;
}

KeyValue* find(Table& table, std::string_view key) {
  return const_cast<KeyValue*>(find(static_cast<const Table&>(table), key));
}

}  // namespace estrain::toml

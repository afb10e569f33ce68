#include "core/base/json/json_fields.h"

#include <limits>

namespace estrain {
namespace {

const Json kNothing;

const Json& value_in(const Json& object, std::string_view key) {
  if (!object.is_object()) return kNothing;
  const auto found = object.find(key);
  return found == object.end() ? kNothing : *found;
}

}  // namespace

std::optional<std::string> as_text(const Json& value) {
  if (!value.is_string()) return std::nullopt;
  return value.get<std::string>();
}

std::optional<int64_t> as_whole(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()})
    return std::nullopt;
  return value.get<int64_t>();
}

std::optional<double> as_number(const Json& value) {
  if (!value.is_number()) return std::nullopt;
  return value.get<double>();
}

std::optional<std::string> text_in(const Json& object, std::string_view key) { return as_text(value_in(object, key)); }
std::optional<int64_t> whole_in(const Json& object, std::string_view key) { return as_whole(value_in(object, key)); }
std::optional<double> number_in(const Json& object, std::string_view key) { return as_number(value_in(object, key)); }

const Json& list_in(const Json& object, std::string_view key) {
  static const Json none = Json::array();
  const Json& value = value_in(object, key);
  return value.is_array() ? value : none;
}

const Json& object_in(const Json& object, std::string_view key) {
  static const Json none = Json::object();
  const Json& value = value_in(object, key);
  return value.is_object() ? value : none;
}

}  // namespace estrain

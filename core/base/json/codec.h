#pragma once
// A codec for messages between processes, used by both ends. A message is a struct with its own name and a list of its
// fields:
//
//   struct Saved {
//     static constexpr std::string_view name = "saved";
//     Step step;
//     double seconds = 0;
//     ESTRAIN_FIELDS(step, seconds)
//   };
//
// In JSON: {"is": "saved", "step": 3, "seconds": 0.2}. A field is a number, a bool, a text, an Id, an EstRange, a
// MonotonicTime or Nanoseconds (a whole number of nanoseconds), Seconds (a number of seconds), another struct with
// fields, a list or a map of those, another message, or a std::optional, which is left out where it is empty; or a type
// with to_field() and from_field() in its own namespace. A map is a list of [key, value]. A struct that is no message
// needs no name. Fields absent from a message keep the defaults, unless the struct declares `is_complete`: then each
// field without std::optional must be present. Unknown keys are passed over.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/base/json/fields.h"
#include "core/base/json/json.h"

namespace estrain::codec {

template <typename T>
concept HasFields = requires(T& value) {
  T::fields(value, [](std::string_view, auto&) {});
};

// Throws Fault::usage. `what` says why the message cannot be read: "not a text".
[[noreturn]] void refuse_message(std::string_view what);

template <HasFields Struct>
Json fields_of(const Struct& value);
template <HasFields Struct>
void read_fields(const Json& json, Struct& value);
template <typename... Messages>
Json encode(const std::variant<Messages...>& message, std::string_view key = "is");
template <typename Variant>
Variant decode(const Json& json, std::string_view key = "is");

inline Json to_field(bool value) { return value; }
inline Json to_field(int64_t value) { return value; }
inline Json to_field(uint64_t value) { return value; }
inline Json to_field(int value) { return value; }
inline Json to_field(double value) { return value; }
inline Json to_field(MonotonicTime value) { return count_ns(value); }
inline Json to_field(Nanoseconds value) { return value.count(); }
inline Json to_field(Seconds value) { return value.count(); }
inline Json to_field(const std::string& value) { return value; }
inline Json to_field(const Json& value) { return value; }
inline Json to_field(const EstRange& range) { return Json::array({range.begin.value, range.end.value}); }
template <typename Tag>
Json to_field(Id<Tag> id) {
  return id.value;
}
template <HasFields Struct>
Json to_field(const Struct& value) {
  return fields_of(value);
}
template <typename... Messages>
Json to_field(const std::variant<Messages...>& message) {
  return encode(message);
}
template <typename T>
Json to_field(const std::vector<T>& list) {
  Json json = Json::array();
  for (const T& value : list) json.push_back(to_field(value));
  return json;
}
template <typename Key, typename T>
Json to_field(const std::map<Key, T>& map) {
  Json json = Json::array();
  for (const auto& [key, value] : map) json.push_back(Json::array({Json(key), to_field(value)}));
  return json;
}

template <typename T>
requires std::is_arithmetic_v<T>
void from_field(const Json& json, T& value) {
  const bool fits = std::is_same_v<T, bool>       ? json.is_boolean()
                    : std::is_floating_point_v<T> ? json.is_number()
                                                  : json.is_number_integer();
  if (!fits) refuse_message("not a number or bool that fits");
  value = json.get<T>();
}
inline void from_field(const Json& json, MonotonicTime& value) {
  int64_t ns = 0;
  from_field(json, ns);
  value = monotonic_time(ns);
}
template <typename Rep, typename Period>
void from_field(const Json& json, std::chrono::duration<Rep, Period>& value) {
  Rep count = 0;
  from_field(json, count);
  value = std::chrono::duration<Rep, Period>(count);
}
inline void from_field(const Json& json, std::string& value) {
  if (!json.is_string()) refuse_message("not a text");
  value = json.get<std::string>();
}
inline void from_field(const Json& json, Json& value) { value = json; }
template <typename Tag>
void from_field(const Json& json, Id<Tag>& id) {
  from_field(json, id.value);
}
inline void from_field(const Json& json, EstRange& range) {
  if (!json.is_array() || json.size() != 2) refuse_message("not a range of ESTs");
  from_field(json[0], range.begin);
  from_field(json[1], range.end);
}
template <HasFields Struct>
void from_field(const Json& json, Struct& value) {
  if (!json.is_object()) refuse_message("not an object");
  read_fields(json, value);
}
template <typename... Messages>
void from_field(const Json& json, std::variant<Messages...>& message) {
  message = decode<std::variant<Messages...>>(json);
}
template <typename T>
void from_field(const Json& json, std::vector<T>& list) {
  if (!json.is_array()) refuse_message("not a list");
  list.clear();
  for (const Json& value : json) from_field(value, list.emplace_back());
}
template <typename Key, typename T>
void from_field(const Json& json, std::map<Key, T>& map) {
  if (!json.is_array()) refuse_message("not a list of keys and values");
  map.clear();
  for (const Json& entry : json) {
    if (!entry.is_array() || entry.size() != 2) refuse_message("not a key and a value");
    try {
      from_field(entry[1], map[entry[0].get<Key>()]);
    } catch (const Json::exception&) {
      refuse_message("not a key that fits");
    }
  }
}

template <HasFields Struct>
Json fields_of(const Struct& value) {
  Json json = Json::object();
  const auto put = [&json]<typename T>(std::string_view key, const T& field) {
    if constexpr (requires { field.has_value(); }) {
      if (field) json[std::string(key)] = to_field(*field);
    } else {
      json[std::string(key)] = to_field(field);
    }
  };
  Struct::fields(value, put);
  return json;
}

template <HasFields Struct>
void read_fields(const Json& json, Struct& value) {
  Struct::fields(value, [&json]<typename T>(std::string_view key, T& field) {
    const auto at = json.find(std::string(key));
    if (at == json.end()) {
      if constexpr (
          requires { Struct::is_complete; } && !requires { field.has_value(); })
        refuse_message("\"" + std::string(key) + "\" is missing");
      return;
    }
    if constexpr (requires { field.has_value(); }) {
      if (!at->is_null()) from_field(*at, field.emplace());
    } else {
      from_field(*at, field);
    }
  });
}

// `key`: the key of the message's name in JSON.
template <typename... Messages>
Json encode(const std::variant<Messages...>& message, std::string_view key) {
  return std::visit(
      [key]<typename Message>(const Message& one) {
        Json json = {{std::string(key), Message::name}};
        json.update(fields_of(one));
        return json;
      },
      message);
}

template <typename... Messages>
std::variant<Messages...> decode_named(const Json& json, std::string_view name, std::variant<Messages...>*) {
  std::optional<std::variant<Messages...>> found;
  const auto attempt = [&]<typename Message>(Message message) {
    if (found || Message::name != name) return;
    read_fields(json, message);
    found = std::move(message);
  };
  (attempt(Messages{}), ...);
  if (!found) refuse_message("unknown name: \"" + std::string(name) + "\"");
  return *std::move(found);
}

// Reads the message named by the JSON; `Variant` lists the possible messages. Throws Fault::usage.
template <typename Variant>
Variant decode(const Json& json, std::string_view key) {
  std::string name;
  if (const auto at = json.find(std::string(key)); json.is_object() && at != json.end()) from_field(*at, name);
  return decode_named(json, name, static_cast<Variant*>(nullptr));
}

}  // namespace estrain::codec

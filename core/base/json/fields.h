#pragma once
// Lists the fields of a struct for core/base/json/codec.h:
//
//   struct Saved {
//     Step step;
//     double seconds = 0;
//     ESTRAIN_FIELDS(step, seconds)
//   };
//
// The key of a field in JSON is the name of the member without a trailing underscore, and with "_ns" if the member is
// counted in nanoseconds (`MonotonicTime arrived`: "arrived_ns"). The macro defines `fields(self, visit)`, which calls
// visit(key, member) for each member in order. A struct with keys other than these defines the function without the
// macro.

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <type_traits>

#include "core/base/clock.h"

namespace estrain::codec {

template <typename T>
inline constexpr bool is_in_ns = std::is_same_v<T, MonotonicTime> || std::is_same_v<T, Nanoseconds>;
template <typename T>
inline constexpr bool is_in_ns<std::optional<T>> = is_in_ns<T>;

// The name of a member, as a template's argument.
template <size_t size>
struct MemberName {
  std::array<char, size> text{};
  consteval MemberName(const char (&name)[size]) { std::ranges::copy(name, text.begin()); }  // implicit
};

template <MemberName name, typename T>
struct KeyOfMember {
  static constexpr size_t length = name.text.size() - 1 - (name.text[name.text.size() - 2] == '_' ? 1 : 0);
  static constexpr auto text = [] {
    std::array<char, length + (is_in_ns<T> ? 3 : 0)> key{};
    std::ranges::copy_n(name.text.begin(), length, key.begin());
    if constexpr (is_in_ns<T>) std::ranges::copy(std::string_view("_ns"), key.begin() + length);
    return key;
  }();
};

template <MemberName name, typename T>
constexpr std::string_view key_of_member(const T&) {
  constexpr const auto& text = KeyOfMember<name, T>::text;
  return {text.data(), text.size()};
}

// A message without fields derives from this struct.
struct NoFields {
  template <typename Self, typename Visit>
  static void fields(Self&, Visit&&) {}
};

}  // namespace estrain::codec

#define ESTRAIN_FIELDS(...)                           \
  template <typename Self, typename Visit>            \
  static void fields(Self& self, Visit&& visit) {     \
    ESTRAIN_EXPAND(ESTRAIN_VISIT_FIELDS(__VA_ARGS__)) \
  }

// The preprocessor expands a macro within itself only when it scans its text again: ESTRAIN_EXPAND scans 85 times, for
// as many fields.
#define ESTRAIN_VISIT_FIELDS(member, ...)                                    \
  visit(::estrain::codec::key_of_member<#member>(self.member), self.member); \
  __VA_OPT__(ESTRAIN_VISIT_MORE ESTRAIN_PARENTHESES(__VA_ARGS__))
#define ESTRAIN_VISIT_MORE() ESTRAIN_VISIT_FIELDS
#define ESTRAIN_PARENTHESES ()
#define ESTRAIN_EXPAND(...) ESTRAIN_SCAN_64(ESTRAIN_SCAN_16(ESTRAIN_SCAN_4(__VA_ARGS__)))
#define ESTRAIN_SCAN_64(...) ESTRAIN_SCAN_16(ESTRAIN_SCAN_16(ESTRAIN_SCAN_16(ESTRAIN_SCAN_16(__VA_ARGS__))))
#define ESTRAIN_SCAN_16(...) ESTRAIN_SCAN_4(ESTRAIN_SCAN_4(ESTRAIN_SCAN_4(ESTRAIN_SCAN_4(__VA_ARGS__))))
#define ESTRAIN_SCAN_4(...) ESTRAIN_SCAN(ESTRAIN_SCAN(ESTRAIN_SCAN(ESTRAIN_SCAN(__VA_ARGS__))))
#define ESTRAIN_SCAN(...) __VA_ARGS__

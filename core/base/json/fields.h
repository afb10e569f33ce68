#pragma once
// Lists the fields of a struct for core/base/json/codec.h:
//
//   struct Saved {
//     Step step;
//     double seconds = 0;
//     ESTRAIN_FIELDS(step, seconds)
//   };
//
// The key of a field in JSON is the name of the member without a trailing underscore. The macro defines
// `fields(self, visit)`, which calls visit(key, member) for each member in order. A struct with keys other than the
// members' names defines the function without the macro.

#include <string_view>

namespace estrain::codec {

constexpr std::string_view key_of_member(std::string_view member) {
  return member.substr(0, member.size() - static_cast<size_t>(member.ends_with('_')));
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
#define ESTRAIN_VISIT_FIELDS(member, ...)                       \
  visit(::estrain::codec::key_of_member(#member), self.member); \
  __VA_OPT__(ESTRAIN_VISIT_MORE ESTRAIN_PARENTHESES(__VA_ARGS__))
#define ESTRAIN_VISIT_MORE() ESTRAIN_VISIT_FIELDS
#define ESTRAIN_PARENTHESES ()
#define ESTRAIN_EXPAND(...) ESTRAIN_SCAN_64(ESTRAIN_SCAN_16(ESTRAIN_SCAN_4(__VA_ARGS__)))
#define ESTRAIN_SCAN_64(...) ESTRAIN_SCAN_16(ESTRAIN_SCAN_16(ESTRAIN_SCAN_16(ESTRAIN_SCAN_16(__VA_ARGS__))))
#define ESTRAIN_SCAN_16(...) ESTRAIN_SCAN_4(ESTRAIN_SCAN_4(ESTRAIN_SCAN_4(ESTRAIN_SCAN_4(__VA_ARGS__))))
#define ESTRAIN_SCAN_4(...) ESTRAIN_SCAN(ESTRAIN_SCAN(ESTRAIN_SCAN(ESTRAIN_SCAN(__VA_ARGS__))))
#define ESTRAIN_SCAN(...) __VA_ARGS__

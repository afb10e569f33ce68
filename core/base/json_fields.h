#pragma once
// Fields of records that are read back from files and sockets. A file may hold anything: a field is of the type that is
// asked for, or it counts as absent. So does every field of what is not an object.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/json.h"

namespace estrain {

std::optional<std::string> text_in(const Json& object, std::string_view key);
std::optional<int64_t> whole_in(const Json& object, std::string_view key);  // 3, not 3.0, and one that int64_t has
std::optional<double> number_in(const Json& object, std::string_view key);  // whole numbers too
const Json& list_in(const Json& object, std::string_view key);              // an empty array if absent
const Json& object_in(const Json& object, std::string_view key);            // an empty object if absent

// The same for values that stand by themselves, in an array.
std::optional<std::string> as_text(const Json& value);
std::optional<int64_t> as_whole(const Json& value);
std::optional<double> as_number(const Json& value);

}  // namespace estrain

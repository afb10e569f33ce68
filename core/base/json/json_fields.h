#pragma once
// Fields of records read back from files and sockets. A file may hold anything: a field of the wrong type counts as
// absent, as does every field of a value that is not an object.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/json/json.h"

namespace estrain {

std::optional<std::string> text_in(const Json& object, std::string_view key);
std::optional<int64_t> whole_in(const Json& object, std::string_view key);  // 3, not 3.0; in the range of int64_t
std::optional<double> number_in(const Json& object, std::string_view key);  // whole numbers, too
const Json& list_in(const Json& object, std::string_view key);              // an empty array if absent
const Json& object_in(const Json& object, std::string_view key);            // an empty object if absent

// Do the same for single values, such as elements of an array.
std::optional<std::string> as_text(const Json& value);
std::optional<int64_t> as_whole(const Json& value);
std::optional<double> as_number(const Json& value);

}  // namespace estrain

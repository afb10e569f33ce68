#pragma once
// Files with a JSON object per line, such as events.jsonl.

#include <functional>
#include <string>
#include <string_view>

#include "core/base/json/json.h"

namespace estrain {

// Calls `visit` for every whole line that is an object, first to last; skips other lines. A missing file has no lines.
// Throws Fault::io.
void for_each_object(const std::string& path, const std::function<void(const Json&)>& visit);
// Parses only lines with `word`: a file may have millions of other lines.
void for_each_object_with(std::string_view word, const std::string& path,
                          const std::function<void(const Json&)>& visit);

}  // namespace estrain

#pragma once
// Files of one JSON object per line: events.jsonl and its like.

#include <functional>
#include <string>

#include "core/base/json/json.h"

namespace estrain {

// Calls `visit` for every whole line that is an object, first to last; skips other lines. A missing file has no lines.
// Throws Fault::io.
void for_each_object(const std::string& path, const std::function<void(const Json&)>& visit);

}  // namespace estrain

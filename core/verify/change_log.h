#pragma once
// Two runs' change logs (changes.jsonl).

#include <string>
#include <string_view>

#include "core/base/ids.h"

namespace estrain::verify {

// How they differ in changes that hold from a step up to `last`, as a sentence: the first entry that only one has.
// Empty if they do not.
std::string change_log_difference(std::string_view a, std::string_view b, Step last);

}  // namespace estrain::verify

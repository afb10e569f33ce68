#pragma once
// Runs' change logs (changes.jsonl; core/record/FORMAT.md).

#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"

namespace estrain::verify {

// How they differ in changes that hold from a step up to `last`, as a sentence: the first entry that only one has.
// Empty if they do not.
std::string change_log_difference(std::string_view a, std::string_view b, Step last);

// The changes of one log that hold for steps up to `last`, a sentence each.
std::vector<std::string> changes_in_words(std::string_view log, Step last);

}  // namespace estrain::verify

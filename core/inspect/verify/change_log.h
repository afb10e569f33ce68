#pragma once
// Runs' change logs (changes.jsonl; core/state/record/FORMAT.md).

#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"

namespace estrain::verify {

// Returns the first difference in changes with effect up to step `last`, as a sentence, or an empty string without a
// difference.
std::string change_log_difference(std::string_view a, std::string_view b, Step last);

// The changes of one log in effect for steps up to `last`, a sentence each.
std::vector<std::string> changes_in_words(std::string_view log, Step last);

}  // namespace estrain::verify

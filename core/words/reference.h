#pragma once
// All topics as one page: configs/REFERENCE.md.

#include <string>
#include <vector>

#include "core/words/verb.h"

namespace estrain::words {

std::string reference(const std::vector<Verb>& verbs);

}  // namespace estrain::words

#pragma once
// All topics as one page: configs/REFERENCE.md.

#include <string>
#include <vector>

#include "cmd/help/verb.h"

namespace estrain::help {

std::string reference(const std::vector<Verb>& verbs);

}  // namespace estrain::help

#pragma once
// Manual pages in roff: estrain(1), one for each command, estrain-spec(5) for the keys, estrain-errors(7) for exit
// codes, errors, causes and events.

#include <string>
#include <vector>

#include "cmd/help/verb.h"

namespace estrain::help {

struct ManPage {
  std::string file;  // "estrain-train.1"
  std::string text;
};

std::vector<ManPage> man_pages(const std::vector<Verb>& verbs, const std::string& version);

}  // namespace estrain::help

#pragma once
// The help as files: manual pages, the reference, and the words that bash completes.

#include <string>
#include <vector>

#include "cmd/help/verb.h"

namespace estrain::help {

// Manual pages in roff: estrain(1), one for each command, estrain-spec(5) for the keys, estrain-errors(7) for exit
// codes, errors, causes and events.
struct ManPage {
  std::string file;  // "estrain-train.1"
  std::string text;
};

std::vector<ManPage> man_pages(const std::vector<Verb>& verbs, const std::string& version);

// All topics as one page: configs/REFERENCE.md.
std::string reference(const std::vector<Verb>& verbs);

// The file for bash: commands, their options, words that an option takes, keys behind --set, topics behind help.
std::string completion(const std::vector<Verb>& verbs);

}  // namespace estrain::help

#pragma once
// A pattern of file names, "shards/fineweb_*.bin", stands for all files with such names.
//
// `*`, `?` and `[...]` stand for characters of a name, as in fnmatch(3): never for "/", nor for a dot at the start of a
// name. A part of the path that exists under the very name is taken as it stands: a folder "run[1]" is no pattern.

#include <string>
#include <string_view>
#include <vector>

#include "core/data/files/data_files.h"

namespace estrain::data {

// Whether the path names nothing that exists, and has a character of a pattern.
bool is_file_pattern(const std::string& path);

// The files with names like the pattern, in the order of Python's sorted() (python_sorts_before(), file_tree.h). Throws
// Fault::io if there is none, or if a folder cannot be listed.
std::vector<std::string> files_like(const std::string& pattern);

// Replaces a name whose path is a pattern by a name for each file; any other name stays alone. FileName::what tells the
// files apart by the part of the path that the pattern describes: "training data fineweb_000001.bin". Throws as
// files_like().
std::vector<FileName> spread(const FileName& name);

}  // namespace estrain::data

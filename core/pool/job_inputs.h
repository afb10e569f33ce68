#pragma once
// Input files of a job, by the spec, and the input files named by an error.

#include <string>
#include <vector>

#include "core/job/spec/job_spec.h"

namespace estrain::pool {

// Returns absolute paths of the data, of an exported model and of the initial weights: files, and folders of files. Not
// the user's Python: a user mends code without changing its name.
std::vector<std::string> inputs_of(const spec::JobSpec& spec);

// Returns the files named in this text, each once, in order. A name begins with one of the inputs; names within a
// folder may hold spaces and colons, so the longest existing path is taken. A name of no existing file counts as its
// input.
std::vector<std::string> files_named_in(const std::string& text, const std::vector<std::string>& inputs);

}  // namespace estrain::pool

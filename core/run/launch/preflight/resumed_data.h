#pragma once
// Finds out whether a resumed run still has the data of its training so far, before anything is written. The workers
// check their own opened files again (core/data/files/identity.h).

#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/data/files/identity.h"
#include "core/job/spec/job_spec.h"

namespace estrain::launch {

// Returns the changes of the files named by `section` since `known`, a checkpoint's CheckpointMeta::data, was taken.
// Reads no file whose stamp is unchanged. Throws Fault::io where a file is missing, Fault::corrupt.
std::vector<data::DataChange> changes_since(const std::string& known, const spec::DataSection& section);
// Returns the same for all files of a job (core/data/job_data.h). Samples made by code are compared by the workers.
std::vector<data::DataChange> changes_since(const std::string& known, const spec::JobSpec& spec);

// Returns the lines of `changes` for changes.jsonl (core/state/record/FORMAT.md), as accepted at `step`.
std::string change_log_lines(const std::vector<data::DataChange>& changes, Step step);

}  // namespace estrain::launch

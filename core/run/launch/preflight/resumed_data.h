#pragma once
// Whether a run that is resumed finds the data that it was trained on, asked before anything is written. The workers
// check the files that they open themselves again (core/data/files/identity.h).

#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/data/files/identity.h"
#include "core/job/spec/job_spec.h"

namespace estrain::launch {

// The changes of the files that `section` names since `known`, a checkpoint's CheckpointMeta::data, was taken. Reads no
// file whose stamp is unchanged. Throws Fault::io where one is missing, Fault::corrupt.
std::vector<data::DataChange> changes_since(const std::string& known, const spec::DataSection& section);
// The same of all files of a job (core/data/job_data.h).
std::vector<data::DataChange> changes_since(const std::string& known, const spec::JobSpec& spec);

// Their lines in changes.jsonl (core/state/record/FORMAT.md), as accepted at `step`.
std::string change_log_lines(const std::vector<data::DataChange>& changes, Step step);

}  // namespace estrain::launch

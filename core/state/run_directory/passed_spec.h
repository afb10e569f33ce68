#pragma once
// The job's spec in a sealed memory file without a name: the launcher passes the spec to the processes of its run, and
// to itself across a re-exec. All processes train, save and record by the same spec, even if job.toml changes
// meanwhile.

#include "core/base/files/unique_fd.h"
#include "core/job/spec/job_spec.h"

namespace estrain::run_directory {

// Throws Fault::io.
UniqueFd pass_spec(const spec::JobSpec& spec);
spec::JobSpec read_passed_spec(int fd);

}  // namespace estrain::run_directory

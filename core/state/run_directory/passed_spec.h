#pragma once
// The job's spec as the launcher passes it to the processes of its run, and to itself across a re-exec: in a memory
// file without a name, sealed. All of them train, save and record by the same spec, whatever becomes of job.toml while
// the job runs.

#include "core/base/files/unique_fd.h"
#include "core/job/spec/job_spec.h"

namespace estrain::run_directory {

// Throws Fault::io.
UniqueFd pass_spec(const spec::JobSpec& spec);
spec::JobSpec read_passed_spec(int fd);

}  // namespace estrain::run_directory

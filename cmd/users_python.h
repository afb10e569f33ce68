#pragma once
// How a worker's process becomes the user's Python, for a job whose model is a module in Python: by exec, so it stays
// the process that the launcher started and watches. That Python runs core/python/host.py, which loads the worker's
// library.

#include "core/base/json/json.h"
#include "core/spec/job_spec.h"

namespace estrain::cmd {

// `job` has what the library needs of the command line (core/python/enter.cpp), beside what this adds; `library`: as
// for worker_library_function(). Descriptors below 0 in it do not exist. Returns only by an exception: Fault::spec
// where there is no such file, or it is no Python; Fault::io.
[[noreturn]] void become_users_python(const spec::JobSpec& spec, Json job, int library);

}  // namespace estrain::cmd
